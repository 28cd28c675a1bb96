! Exchanges arrays with Python. `exchange put` stores them, `exchange get` checks what Python has stored.
program exchange
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use checks
  implicit none

  type(tidepool_client) :: client
  type(tidepool_map) :: map
  character(10) :: verb
  integer :: i

  call get_command_argument(1, verb)
  call client%connect()
  call map%open(client, 'exchange')
  if (verb == 'put') then
    call put_all()
  else
    call get_all()
  end if
  call map%close()
  call client%close()

contains

  subroutine put_all()
    call map%put('i4', [(i, i=1, 5)])
    call map%put('f8', reshape([(real(i, real64), i=1, 6)], [2, 3]))
    call map%put('f4', reshape([(real(i, real32), i=1, 24)], [2, 3, 4]))
    call map%put('i8', [2_int64**40])
    call map%put('S', ['one  ', 'three'])
    call map%put('text', 'a text')
    call map%put('integer', 42)
    call map%put('real', 0.5_real64)
    call map%put('plain', [1.5_real64, 2.5_real64], plain=.true.)
  end subroutine

  subroutine get_all()
    real(real64) :: rows(2, 3), block(2, 3, 4), x
    integer(int64) :: whole
    integer(int32) :: columns(3, 2)
    character(6) :: words(2), text
    call map%get('rows', rows)
    call check(all(rows == reshape([0, 3, 1, 4, 2, 5], [2, 3])), 'rows become columns')
    call map%get('columns', columns)
    call check(all(columns == reshape([1, 2, 3, 4, 5, 6], [3, 2])), 'columns stay')
    call map%get('block', block)
    call check(block(2, 3, 4) == 23 .and. block(2, 1, 1) == 12 .and. block(1, 2, 1) == 4 .and. block(1, 1, 2) == 1, &
               'a block of rows')
    call map%get('words', words)
    call check(all(words == ['ab  ', 'cdef']), 'words')
    call map%get('text', text)
    call check(text == 'string', 'text')
    call map%get('integer', whole)
    call map%get('real', x)
    call check(whole == -3 .and. x == 2.5_real64, 'numbers')
    call refused('big-endian', 'big-endian')
    call refused('four', 'more than 3 dimensions')
    call refused('fields', 'several fields')
    call refused('dates', 'the array in the record')
    call refused('logical', 'the record is b1(2), the variable f8(2)')
    call refused('cut', 'cut off')
    call refused('damaged', 'damaged')
    call refused('bytes', 'no array')
  end subroutine

  subroutine refused(key, words)
    character(*), intent(in) :: key, words
    real(real64) :: x(2)
    call map%get(key, x, stat=stat, errmsg=message)
    call is(tidepool_invalid_argument, words)
  end subroutine
end program exchange
