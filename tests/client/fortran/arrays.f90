! Values of each type and each rank make the round trip, and bad ones are refused by one line that says why.
program arrays
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use checks
  implicit none

  type(tidepool_client) :: client
  type(tidepool_map) :: map
  integer :: i

  call client%connect()
  call map%open(client, 'fortran-arrays')
  call numbers()
  call integers_32()
  call integers_64()
  call reals_32()
  call reals_64()
  call texts()
  call plain_values()
  call sections()
  call empty_arrays()
  call wrong_variables()
  call conditions()
  call map%close()
  call client%drop('fortran-arrays')
  call client%close()
  print '(a)', 'arrays: all is well'

contains

  subroutine numbers()
    integer(int32) :: small
    integer(int64) :: large, before
    real(real32) :: single
    real(real64) :: double, double_before
    type(tidepool_record) :: record
    call map%put('n', -7_int32)
    call map%get('n', large)
    call check(large == -7, 'integer(int32) to integer(int64)')
    call map%get('n', double)
    call check(double == -7, 'integer to real')
    call map%put('n', 2_int64**40)
    call map%get('n', large)
    call check(large == 2_int64**40, 'integer(int64)')
    small = 5
    call map%get('n', small, stat=stat, errmsg=message)
    call is(tidepool_out_of_range, 'does not fit 32 bits')
    call check(small == 5, 'a failed get changes nothing')
    call map%put('x', 0.1_real32)
    call map%get('x', single)
    call check(single == 0.1_real32, 'real(real32)')
    call map%put('x', 0.1_real64)
    call map%get('x', double)
    call check(double == 0.1_real64, 'real(real64)')
    call map%get('x', large, stat=stat, errmsg=message)
    call is(tidepool_invalid_argument, 'real number')
    call map%inquire('x', record)
    call check(record%type == 'real' .and. record%rank == 0 .and. record%version > 0, 'inquire of a number')
    call map%put('counter', 3)
    call map%fetch_add('counter', 4_int64, before)
    call map%get('counter', small)
    call check(before == 3 .and. small == 7, 'fetch_add of integers')
    call map%fetch_add('sum', 0.5_real64, double_before)
    call map%fetch_add('sum', 0.25_real64, double_before)
    call check(double_before == 0.5_real64, 'fetch_add of reals')
  end subroutine

  subroutine integers_32()
    integer(int32) :: a(5), b(3, 2), c(2, 3, 4), a2(5), b2(3, 2), c2(2, 3, 4)
    a = [(i, i=1, 5)]
    b = reshape([(i, i=1, 6)], [3, 2])
    c = reshape([(i, i=1, 24)], [2, 3, 4])
    call map%put('i4 1', a)
    call map%put('i4 2', b)
    call map%put('i4 3', c)
    call map%get('i4 1', a2)
    call map%get('i4 2', b2)
    call map%get('i4 3', c2)
    call check(all(a == a2) .and. all(b == b2) .and. all(c == c2), 'integer(int32)')
  end subroutine

  subroutine integers_64()
    integer(int64) :: a(5), b(3, 2), c(2, 3, 4), a2(5), b2(3, 2), c2(2, 3, 4)
    a = [(2_int64**40 + i, i=1, 5)]
    b = reshape([(2_int64**40 + i, i=1, 6)], [3, 2])
    c = reshape([(2_int64**40 + i, i=1, 24)], [2, 3, 4])
    call map%put('i8 1', a)
    call map%put('i8 2', b)
    call map%put('i8 3', c)
    call map%get('i8 1', a2)
    call map%get('i8 2', b2)
    call map%get('i8 3', c2)
    call check(all(a == a2) .and. all(b == b2) .and. all(c == c2), 'integer(int64)')
  end subroutine

  subroutine reals_32()
    real(real32) :: a(5), b(3, 2), c(2, 3, 4), a2(5), b2(3, 2), c2(2, 3, 4)
    a = [(i / 3.0, i=1, 5)]
    b = reshape([(i / 3.0, i=1, 6)], [3, 2])
    c = reshape([(i / 3.0, i=1, 24)], [2, 3, 4])
    call map%put('f4 1', a)
    call map%put('f4 2', b)
    call map%put('f4 3', c)
    call map%get('f4 1', a2)
    call map%get('f4 2', b2)
    call map%get('f4 3', c2)
    call check(all(a == a2) .and. all(b == b2) .and. all(c == c2), 'real(real32)')
  end subroutine

  subroutine reals_64()
    real(real64) :: a(5), b(3, 2), c(2, 3, 4), a2(5), b2(3, 2), c2(2, 3, 4)
    type(tidepool_record) :: record
    a = [(i / 3.0_real64, i=1, 5)]
    b = reshape([(i / 3.0_real64, i=1, 6)], [3, 2])
    c = reshape([(i / 3.0_real64, i=1, 24)], [2, 3, 4])
    call map%put('f8 1', a)
    call map%put('f8 2', b)
    call map%put('f8 3', c)
    call map%get('f8 1', a2)
    call map%get('f8 2', b2)
    call map%get('f8 3', c2)
    call check(all(a == a2) .and. all(b == b2) .and. all(c == c2), 'real(real64)')
    call map%inquire('f8 3', record)
    call check(record%type == 'f8' .and. record%rank == 3 .and. all(record%shape == [2, 3, 4]), 'inquire of an array')
  end subroutine

  subroutine texts()
    character(5) :: word, a(2), b(2, 2), c(2, 2, 2), a2(2), b2(2, 2), c2(2, 2, 2)
    character(8) :: longer(2)
    character(3) :: shorter(2)
    character(:), allocatable :: text
    word = '?'
    call map%put('word', 'tide')
    call map%get('word', word)
    call check(word == 'tide', 'a text is filled with blanks')
    call map%get_text('word', text)
    call check(text == 'tide' .and. len(text) == 4, 'a text of its own length')
    call map%put('long', 'more than five')
    call map%get('long', word, stat=stat, errmsg=message)
    call is(tidepool_invalid_argument, 'the record has 14 bytes, the variable 5')
    a = ['ab   ', 'cdefg']
    b = reshape(['1', '2', '3', '4'], [2, 2])
    c = reshape(['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'], [2, 2, 2])
    call map%put('s 1', a)
    call map%put('s 2', b)
    call map%put('s 3', c)
    call map%get('s 1', a2)
    call map%get('s 2', b2)
    call map%get('s 3', c2)
    call check(all(a == a2) .and. all(b == b2) .and. all(c == c2), 'texts')
    call map%get('s 1', longer)
    call check(all(longer == a), 'texts in longer variables')
    call map%get('s 1', shorter, stat=stat, errmsg=message)
    call is(tidepool_invalid_argument, 'the record is S5(2), the variable S3(2)')
  end subroutine

  ! As C and C++ store numbers.
  subroutine plain_values()
    real(real64) :: a(2, 3), a2(6), x
    integer(int32) :: n
    character(2) :: words(3)
    a = reshape([(real(i, real64), i=1, 6)], [2, 3])
    call map%put('plain', a, plain=.true.)
    call map%get('plain', a2, plain=.true.)
    call check(all(a2 == [(real(i, real64), i=1, 6)]), 'an array without a header')
    call map%get('plain', a2(1:5), plain=.true., stat=stat, errmsg=message)
    call is(tidepool_invalid_argument, 'the record has 48 bytes, the variable 40')
    call map%get('plain', a2, stat=stat, errmsg=message)
    call is(tidepool_invalid_argument, 'plain=.true.')
    call map%put('plain 8', 1.5_real64, plain=.true.)
    call map%get('plain 8', x, plain=.true.)
    call check(x == 1.5_real64, 'a number of 8 bytes')
    call map%put('plain 4', 7_int32, plain=.true.)
    call map%get('plain 4', n, plain=.true.)
    call check(n == 7, 'a number of 4 bytes')
    call map%get('plain 4', x, plain=.true., stat=stat, errmsg=message)
    call is(tidepool_invalid_argument, 'the record has 4 bytes, the variable 8')
    call map%put('plain words', ['ab', 'cd', 'ef'], plain=.true.)
    call map%get('plain words', words, plain=.true.)
    call check(all(words == ['ab', 'cd', 'ef']), 'texts without a header')
  end subroutine

  subroutine sections()
    real(real64) :: whole(6, 8), part(3, 4), back(6, 8)
    whole = reshape([(real(i, real64), i=1, 48)], [6, 8])
    call map%put('section', whole(1:6:2, 8:1:-2))
    call map%get('section', part)
    call check(all(part == whole(1:6:2, 8:1:-2)), 'a section is put')
    back = 0
    call map%get('section', back(2:6:2, 1:8:2))
    call check(all(back(2:6:2, 1:8:2) == part) .and. sum(back) == sum(part), 'a section is got')
  end subroutine

  subroutine empty_arrays()
    real(real64) :: none(0), flat(3, 0)
    character(4) :: words(0)
    character(0) :: blank
    call map%put('empty', none)
    call map%get('empty', none)
    call map%put('flat', flat)
    call map%get('flat', flat)
    call map%put('words', words)
    call map%get('words', words)
    call map%put('blank', blank)
    call map%get('blank', blank)
    call map%get('flat', none, stat=stat, errmsg=message)
    call is(tidepool_invalid_argument, 'the record is f8(3, 0), the variable f8(0)')
  end subroutine

  subroutine wrong_variables()
    real(real64) :: a(2, 3), b(3, 2), x
    real(real32) :: c(2, 3)
    a = 1
    b = -1
    call map%put('a', a)
    call map%get('a', b, stat=stat, errmsg=message)
    call is(tidepool_invalid_argument, 'the record is f8(2, 3), the variable f8(3, 2)')
    call check(all(b == -1), 'a failed get changes no array')
    call map%get('a', c, stat=stat, errmsg=message)
    call is(tidepool_invalid_argument, 'the record is f8(2, 3), the variable f4(2, 3)')
    call map%get('a', x, stat=stat, errmsg=message)
    call is(tidepool_invalid_argument, 'no number')
    call map%put('x', 1.0_real64)
    call map%get('x', a, stat=stat, errmsg=message)
    call is(tidepool_invalid_argument, 'single number')
    call map%get('not there', a, stat=stat, errmsg=message)
    call is(tidepool_not_found, '')
    call map%get('not there', a, wait_ms=50_int64, stat=stat, errmsg=message)
    call is(tidepool_deadline_exceeded, '')
    message = ""
    call map%put(repeat('k', 20000), a, stat=stat, errmsg=message)
    call is(tidepool_invalid_argument, '16384')
    call map%get('a', a, stat=stat)
    call check(stat == tidepool_ok, 'stat of a call that is well')
  end subroutine

  subroutine conditions()
    integer(int64) :: before
    character(20) :: key
    type(tidepool_map) :: closed
    call map%put('once', 1, if_absent=.true.)
    call map%put('once', 2, if_absent=.true., stat=stat, errmsg=message)
    call is(tidepool_already_exists, '')
    key = 'once'  ! Its blanks are no part of the key.
    call check(map%contains(key), 'contains')
    call map%delete(key)
    call check(.not. map%contains('once'), 'deleted')
    call map%delete(key, stat=stat, errmsg=message)
    call is(tidepool_not_found, '')
    before = map%length()
    call map%put('another', [1, 2, 3])
    call check(map%length() == before + 1, 'length')
    call closed%put('x', 1, stat=stat, errmsg=message)
    call is(tidepool_invalid_argument, '')
    call map%open(client, 'other', stat=stat, errmsg=message)
    call is(tidepool_failed_precondition, 'open already')
    call closed%open(client, 'no-such-map', create=.false., stat=stat, errmsg=message)
    call is(tidepool_not_found, '')
  end subroutine
end program arrays
