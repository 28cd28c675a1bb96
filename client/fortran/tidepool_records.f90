! Module tidepool_records: arrays, numbers and texts as records of a map, which is a handle of the C API.
!
! An address of characters goes into a variable first: gfortran 12 passes a length for c_loc of characters in a list of
! arguments, so the lengths of the arguments behind it are wrong.
module tidepool_records
  use, intrinsic :: iso_c_binding, only: c_char, c_f_pointer, c_int, c_loc, c_null_char, c_null_ptr, c_ptr, c_size_t, &
    c_sizeof
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use tidepool_c_api
  use tidepool_failures, only: conclude, finish
  use tidepool_format, only: array_format, describe, make_header, read_header, reorder
  implicit none
  private

  public :: key_bytes, store, fetch, text_at, is_plain, put_array, put_texts, put_text, get_array, get_texts, get_number, &
    get_plain, plain_problem

contains

  ! Trailing blanks of a key do not count.
  function key_bytes(key) result(bytes)
    character(*), intent(in) :: key
    integer(c_size_t) :: bytes
    bytes = len_trim(key)
  end function

  ! Stores `bytes` bytes.
  subroutine store(map, key, data, bytes, kind, if_absent, ttl_ms, timeout_ms, stat, errmsg)
    type(c_ptr), intent(in) :: map
    character(*), intent(in) :: key
    type(c_ptr), intent(in) :: data
    integer(c_size_t), intent(in) :: bytes
    integer(c_int), intent(in) :: kind
    logical, intent(in), optional :: if_absent
    integer(int64), intent(in), optional :: ttl_ms, timeout_ms
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(tidepool_put_options) :: options

    options%struct_bytes = c_sizeof(options)
    options%kind = kind
    if (present(if_absent)) options%condition = merge(tidepool_put_if_absent, tidepool_put_always, if_absent)
    if (present(ttl_ms)) options%ttl_ms = ttl_ms
    if (present(timeout_ms)) options%timeout_ms = timeout_ms
    call finish(tidepool_map_put(map, key, key_bytes(key), data, bytes, options, c_null_ptr), stat, errmsg)
  end subroutine

  ! Gets a value into memory of the library, which the caller frees. Waits for the key if `wait_ms` is there.
  function fetch(map, key, wait_ms, timeout_ms, value, bytes, info) result(code)
    type(c_ptr), intent(in) :: map
    character(*), intent(in) :: key
    integer(int64), intent(in), optional :: wait_ms, timeout_ms
    type(c_ptr), intent(out) :: value
    type(tidepool_bytes), intent(out) :: bytes
    type(tidepool_value_info), intent(out) :: info
    type(tidepool_call_options) :: options
    integer(c_int) :: code

    options%struct_bytes = c_sizeof(options)
    if (present(timeout_ms)) options%timeout_ms = timeout_ms
    if (present(wait_ms)) then
      options%timeout_ms = wait_ms
      code = tidepool_map_wait_for_key(map, key, key_bytes(key), options, value)
    else
      code = tidepool_map_get_value(map, key, key_bytes(key), options, value)
    end if
    if (code /= tidepool_ok) return
    code = tidepool_value_view(value, bytes, info)
    if (code /= tidepool_ok) call tidepool_value_free(value)
  end function

  subroutine copy(to, from, bytes)
    type(c_ptr), intent(in) :: to, from
    integer(c_size_t), intent(in) :: bytes
    type(c_ptr) :: same
    if (bytes > 0) same = tidepool_memcpy(to, from, bytes)
  end subroutine

  function text_at(bytes) result(text)
    type(tidepool_bytes), intent(in) :: bytes
    character(:), allocatable, target :: text
    character(kind=c_char), pointer :: view(:)
    integer(int64) :: i

    allocate (character(bytes%bytes) :: text)
    if (bytes%bytes == 0) return
    call c_f_pointer(bytes%data, view, [bytes%bytes])
    do i = 1, bytes%bytes
      text(i:i) = view(i)
    end do
  end function

  logical function is_plain(plain)
    logical, intent(in), optional :: plain
    is_plain = .false.
    if (present(plain)) is_plain = plain
  end function

  ! Stores an array behind its header, or its bytes alone.
  subroutine put_array(map, key, type, shape, data, plain, if_absent, ttl_ms, timeout_ms, stat, errmsg)
    type(c_ptr), intent(in) :: map
    character(*), intent(in) :: key, type
    integer, intent(in) :: shape(:)
    type(c_ptr), intent(in) :: data
    logical, intent(in), optional :: plain, if_absent
    integer(int64), intent(in), optional :: ttl_ms, timeout_ms
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: record(:)
    character(:), allocatable :: header
    type(c_ptr) :: begin, elements
    integer(c_size_t) :: bytes
    integer :: i

    bytes = product(int(shape, c_size_t)) * element_bytes(type)
    if (is_plain(plain)) then
      call store(map, key, data, bytes, tidepool_value_bytes, if_absent, ttl_ms, timeout_ms, stat, errmsg)
      return
    end if
    header = make_header(type, shape)
    allocate (record(len(header) + bytes), stat=i)
    if (i /= 0) then
      call finish(tidepool_resource_exhausted, stat, errmsg, 'no memory in this process')
      return
    end if
    do i = 1, len(header)
      record(i) = header(i:i)
    end do
    if (bytes > 0) then
      elements = c_loc(record(len(header) + 1))
      call copy(elements, data, bytes)
    end if
    begin = c_loc(record(1))
    call store(map, key, begin, size(record, kind=c_size_t), tidepool_value_bytes, if_absent, ttl_ms, &
               timeout_ms, stat, errmsg)
  end subroutine

  integer(int64) function element_bytes(type)
    character(*), intent(in) :: type
    read (type(2:), *) element_bytes
  end function

  ! Stores an array of texts, whose elements all have `length` characters.
  subroutine put_texts(map, key, length, shape, value, plain, if_absent, ttl_ms, timeout_ms, stat, errmsg)
    type(c_ptr), intent(in) :: map
    character(*), intent(in) :: key
    integer, intent(in) :: length, shape(:)
    character(kind=c_char), intent(in), target :: value(*)
    logical, intent(in), optional :: plain, if_absent
    integer(int64), intent(in), optional :: ttl_ms, timeout_ms
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_ptr) :: data

    data = c_null_ptr
    if (product(int(shape, int64)) * length > 0) data = c_loc(value(1))
    call put_array(map, key, text_type(length), shape, data, plain, if_absent, ttl_ms, timeout_ms, stat, errmsg)
  end subroutine

  function text_type(length) result(type)
    integer, intent(in) :: length
    character(16) :: type
    write (type, '(a, i0)') 'S', length
  end function

  ! Gets an array of numbers. It must have the type and the shape of the record; rows of C and numpy become columns.
  subroutine get_array(map, key, type, shape, data, plain, wait_ms, timeout_ms, stat, errmsg)
    type(c_ptr), intent(in) :: map
    character(*), intent(in) :: key, type
    integer, intent(in) :: shape(:)
    type(c_ptr), intent(in) :: data
    logical, intent(in), optional :: plain
    integer(int64), intent(in), optional :: wait_ms, timeout_ms
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_ptr) :: value
    type(tidepool_bytes) :: bytes
    type(tidepool_value_info) :: info
    type(array_format) :: format
    integer(c_int) :: code
    character(:), allocatable :: problem

    code = fetch(map, key, wait_ms, timeout_ms, value, bytes, info)
    if (code /= tidepool_ok) then
      call finish(code, stat, errmsg)
      return
    end if
    if (is_plain(plain)) then
      problem = plain_problem(bytes%bytes, product(int(shape, int64)) * element_bytes(type))
    else
      call check_array(bytes, info, type, shape, format, problem)
    end if
    if (problem == '') call take_array(bytes, type, shape, format, data)
    call tidepool_value_free(value)
    call conclude(problem, stat, errmsg)
  end subroutine

  ! Copies the elements of a record that fits the array.
  subroutine take_array(bytes, type, shape, format, data)
    type(tidepool_bytes), intent(in) :: bytes
    character(*), intent(in) :: type
    integer, intent(in) :: shape(:)
    type(array_format), intent(in) :: format
    type(c_ptr), intent(in) :: data
    character(kind=c_char), pointer :: view(:)
    type(c_ptr) :: elements

    if (product(int(shape, int64)) * element_bytes(type) == 0) return
    call c_f_pointer(bytes%data, view, [bytes%bytes])
    elements = c_loc(view(format%begin + 1))
    if (format%by_columns .or. size(shape) < 2) then
      call copy(data, elements, bytes%bytes - format%begin)
    else
      call reorder(elements, data, format%element_bytes, format%shape)
    end if
  end subroutine

  ! Gets an array of texts. Shorter texts are filled with blanks; longer ones do not fit.
  subroutine get_texts(map, key, length, shape, value, plain, wait_ms, timeout_ms, stat, errmsg)
    type(c_ptr), intent(in) :: map
    character(*), intent(in) :: key
    integer, intent(in) :: length, shape(:)
    character(kind=c_char), intent(inout), target :: value(*)
    logical, intent(in), optional :: plain
    integer(int64), intent(in), optional :: wait_ms, timeout_ms
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_ptr) :: record
    type(tidepool_bytes) :: bytes
    type(tidepool_value_info) :: info
    type(array_format) :: format
    integer(c_int) :: code
    integer(int64) :: count
    character(:), allocatable :: problem
    character(kind=c_char), allocatable, target :: texts(:)
    type(c_ptr) :: data

    code = fetch(map, key, wait_ms, timeout_ms, record, bytes, info)
    if (code /= tidepool_ok) then
      call finish(code, stat, errmsg)
      return
    end if
    count = product(int(shape, int64))
    if (is_plain(plain)) then
      problem = plain_problem(bytes%bytes, count * length)
      format%element_bytes = length
    else
      call check_array(bytes, info, text_type(length), shape, format, problem)
    end if
    if (problem == '' .and. count * format%element_bytes > 0) then
      allocate (texts(count * format%element_bytes))
      data = c_loc(texts(1))
      call take_array(bytes, text_type(int(format%element_bytes)), shape, format, data)
      call pad(texts, int(format%element_bytes), value, length, count, is_plain(plain))
    else if (problem == '') then
      value(1:count * length) = ' '
    end if
    call tidepool_value_free(record)
    call conclude(problem, stat, errmsg)
  end subroutine

  ! Copies texts; numpy ends short texts by NUL, Fortran by blanks.
  subroutine pad(from, from_length, to, to_length, count, plain)
    integer, intent(in) :: from_length, to_length
    integer(int64), intent(in) :: count
    character(kind=c_char), intent(in) :: from(from_length, count)
    character(kind=c_char), intent(inout) :: to(to_length, count)
    logical, intent(in) :: plain
    integer(int64) :: i
    integer :: last

    do i = 1, count
      last = from_length
      do while (last > 0 .and. .not. plain)
        if (from(last, i) /= c_null_char) exit
        last = last - 1
      end do
      to(1:last, i) = from(1:last, i)
      to(last + 1:, i) = ' '
    end do
  end subroutine

  function plain_problem(found, wanted) result(problem)
    integer(int64), intent(in) :: found, wanted
    character(:), allocatable :: problem
    character(80) :: text

    problem = ''
    if (found == wanted) return
    write (text, '(a, i0, a, i0)') 'the record has ', found, ' bytes, the variable ', wanted
    problem = trim(text)
  end function

  ! Sets `problem` unless a record is an array of this type and shape. A text may be longer than those of the record.
  subroutine check_array(bytes, info, type, shape, format, problem)
    type(tidepool_bytes), intent(in) :: bytes
    type(tidepool_value_info), intent(in) :: info
    character(*), intent(in) :: type
    integer, intent(in) :: shape(:)
    type(array_format), intent(out) :: format
    character(:), allocatable, intent(out) :: problem
    logical :: same

    problem = ''
    if (info%kind /= tidepool_value_bytes) then
      problem = 'the record is a single number (get it into a scalar)'
      return
    end if
    format = read_header(bytes%data, bytes%bytes)
    if (format%problem /= '') then
      problem = trim(format%problem) // ' (plain=.true. gets the bytes of C and C++ programs)'
      return
    end if
    same = format%type == type
    if (type(1:1) == 'S' .and. format%type(1:1) == 'S') same = format%element_bytes <= element_bytes(type)
    if (same .and. format%rank == size(shape)) same = all(format%shape(1:format%rank) == shape)
    if (same .and. format%rank == size(shape)) return
    problem = 'the record is ' // describe(format%type, format%shape(1:format%rank)) // ', the variable ' // &
              describe(type, int(shape, int64)) // ' (inquire the record first)'
  end subroutine

  subroutine put_text(map, key, length, value, if_absent, ttl_ms, timeout_ms, stat, errmsg)
    type(c_ptr), intent(in) :: map
    character(*), intent(in) :: key
    integer(c_size_t), intent(in) :: length
    character(kind=c_char), intent(in), target :: value(*)
    logical, intent(in), optional :: if_absent
    integer(int64), intent(in), optional :: ttl_ms, timeout_ms
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_ptr) :: data
    data = c_null_ptr
    if (length > 0) data = c_loc(value(1))
    call store(map, key, data, length, tidepool_value_bytes, if_absent, ttl_ms, timeout_ms, stat, errmsg)
  end subroutine

  ! Gets a number: a counter, or an array of rank 0. `whole` or `real` is set, as `is_whole` says.
  subroutine get_number(map, key, wait_ms, timeout_ms, is_whole, whole, float, code, problem)
    type(c_ptr), intent(in) :: map
    character(*), intent(in) :: key
    integer(int64), intent(in), optional :: wait_ms, timeout_ms
    logical, intent(out) :: is_whole
    integer(int64), intent(out), target :: whole
    real(real64), intent(out), target :: float
    integer(c_int), intent(out) :: code
    character(:), allocatable, intent(out) :: problem
    type(c_ptr) :: value
    type(tidepool_bytes) :: bytes
    type(tidepool_value_info) :: info

    problem = ''
    is_whole = .true.
    whole = 0
    float = 0
    code = fetch(map, key, wait_ms, timeout_ms, value, bytes, info)
    if (code /= tidepool_ok) return
    is_whole = info%kind == tidepool_value_i64
    if (is_whole) then
      call copy(c_loc(whole), bytes%data, 8_c_size_t)
    else if (info%kind == tidepool_value_f64) then
      call copy(c_loc(float), bytes%data, 8_c_size_t)
    else
      problem = 'the record is no number (plain=.true. gets the bytes of C and C++ programs)'
    end if
    call tidepool_value_free(value)
  end subroutine

  ! Gets exactly `wanted` bytes to `data`.
  subroutine get_plain(map, key, wait_ms, timeout_ms, data, wanted, stat, errmsg)
    type(c_ptr), intent(in) :: map
    character(*), intent(in) :: key
    integer(int64), intent(in), optional :: wait_ms, timeout_ms
    type(c_ptr), intent(in) :: data
    integer(c_size_t), intent(in) :: wanted
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_ptr) :: value
    type(tidepool_bytes) :: bytes
    type(tidepool_value_info) :: info
    integer(c_int) :: code

    code = fetch(map, key, wait_ms, timeout_ms, value, bytes, info)
    if (code /= tidepool_ok) then
      call finish(code, stat, errmsg)
      return
    end if
    if (bytes%bytes == wanted) call copy(data, bytes%data, wanted)
    call tidepool_value_free(value)
    call conclude(plain_problem(bytes%bytes, wanted), stat, errmsg)
  end subroutine
end module tidepool_records
