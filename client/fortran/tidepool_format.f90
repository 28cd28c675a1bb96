! Module tidepool_format: arrays as bytes, in the format .npy that numpy and the Python client read.
!
! An array is a header and its elements. The header is text that names the type of the elements, their order and the
! shape. It has a multiple of 64 bytes, so the elements behind it are aligned.
module tidepool_format
  use, intrinsic :: iso_c_binding, only: c_char, c_f_pointer, c_loc, c_ptr, c_size_t
  use, intrinsic :: iso_fortran_env, only: int64
  implicit none
  private

  integer, parameter, public :: rank_max = 3

  ! How an array lies in a record.
  type, public :: array_format
    character(16) :: type = ''             ! 'i4', 'i8', 'f4', 'f8' or 'S' and a length, else as the record says.
    logical :: by_columns = .true.         ! As Fortran stores arrays.
    integer :: rank = 0
    integer(int64) :: shape(rank_max) = 1  ! Of the first dimensions; further numbers are 1.
    integer(int64) :: begin = 0            ! Bytes before the first element.
    integer(int64) :: element_bytes = 0
    character(80) :: problem = ''          ! Why this is no array that the module reads; blank: it is.
  end type

  public :: make_header, read_header, describe, reorder

  character(*), parameter :: magic = char(147) // 'NUMPY' // char(1) // char(0)

contains

  ! Returns the header of an array of `type`.
  function make_header(type, shape) result(header)
    character(*), intent(in) :: type
    integer, intent(in) :: shape(:)
    character(:), allocatable :: header
    character(:), allocatable :: text
    character(12) :: number
    integer :: i, bytes

    text = "{'descr': '" // merge('|', '<', type(1:1) == 'S') // trim(type) // "', 'fortran_order': " // &
           trim(merge('True ', 'False', size(shape) > 1)) // ", 'shape': ("
    do i = 1, size(shape)
      write (number, '(i0)') shape(i)
      text = text // trim(number)
      if (i < size(shape)) then
        text = text // ', '
      else if (i == 1) then
        text = text // ','
      end if
    end do
    text = text // '), }'
    bytes = len(magic) + 2 + len(text) + 1
    text = text // repeat(' ', modulo(-bytes, 64)) // char(10)
    header = magic // char(modulo(len(text), 256)) // char(len(text) / 256) // text
  end function

  ! Reads the header of the array that `bytes` bytes at `data` hold. Checks that the elements fill the rest.
  function read_header(data, bytes) result(format)
    type(c_ptr), intent(in) :: data
    integer(c_size_t), intent(in) :: bytes
    type(array_format) :: format
    character(kind=c_char), pointer :: view(:)
    character(:), allocatable :: text
    integer(int64) :: size_of_text, prefix

    format%problem = 'the record is no array'
    if (bytes < 12) return
    call c_f_pointer(data, view, [bytes])
    if (any(view(1:6) /= [magic(1:1), 'N', 'U', 'M', 'P', 'Y'])) return
    prefix = merge(10, 12, ichar(view(7)) == 1)
    size_of_text = ichar(view(9)) + 256_int64 * ichar(view(10))
    if (prefix == 12) size_of_text = size_of_text + 65536_int64 * (ichar(view(11)) + 256_int64 * ichar(view(12)))
    if (size_of_text > 4096 .or. prefix + size_of_text > bytes) return
    text = text_of(view(prefix + 1:prefix + size_of_text))
    format%begin = prefix + size_of_text
    format%problem = ''
    call read_type(text, format)
    if (format%problem == '') call read_shape(text, format)
    if (format%problem /= '') return
    if (format%begin + product(format%shape) * format%element_bytes /= bytes) &
      format%problem = 'the array in the record is cut off'
  end function

  pure function text_of(view) result(text)
    character(kind=c_char), intent(in) :: view(:)
    character(size(view)) :: text
    integer :: i
    do i = 1, size(view)
      text(i:i) = view(i)
    end do
  end function

  ! Sets the type and the order.
  subroutine read_type(text, format)
    character(*), intent(in) :: text
    type(array_format), intent(inout) :: format
    character(*), parameter :: name = "'descr': '"
    integer :: from, to, failed

    from = index(text, name)
    to = 0
    if (from > 0) then
      from = from + len(name)
      to = from + index(text(from:), "'") - 2
    end if
    if (to < from + 2 .or. to - from > len(format%type)) then
      format%problem = 'the array in the record has elements of several fields'
      return
    end if
    format%type = text(from + 1:to)
    read (text(from + 2:to), *, iostat=failed) format%element_bytes
    if (failed /= 0 .or. format%element_bytes < 0 .or. format%element_bytes > 2_int64**30) then
      format%problem = "the array in the record has type '" // text(from:to) // "'"
    else if (text(from:from) == '>') then
      format%problem = 'the array in the record is big-endian'
    end if
    format%by_columns = index(text, "'fortran_order': True") > 0
  end subroutine

  ! Sets rank and shape.
  subroutine read_shape(text, format)
    character(*), intent(in) :: text
    type(array_format), intent(inout) :: format
    character(*), parameter :: name = "'shape': ("
    integer :: from, to, comma, failed

    from = index(text, name) + len(name)
    to = from + index(text(from:), ')') - 2
    if (from == len(name) .or. to < from - 1) then
      format%problem = 'the array in the record has no shape'
      return
    end if
    do while (verify(text(from:to), ' ,') > 0)
      if (format%rank == rank_max) then
        format%problem = 'the array in the record has more than 3 dimensions'
        return
      end if
      format%rank = format%rank + 1
      comma = index(text(from:to), ',')
      if (comma == 0) comma = to - from + 2
      read (text(from:from + comma - 2), *, iostat=failed) format%shape(format%rank)
      if (failed /= 0 .or. format%shape(format%rank) < 0 .or. format%shape(format%rank) > 2_int64**31) then
        format%problem = 'the array in the record has a damaged shape'
        return
      end if
      from = from + comma
    end do
  end subroutine

  ! Returns type and shape as text, for example 'f8(10, 20)'.
  function describe(type, shape) result(text)
    character(*), intent(in) :: type
    integer(int64), intent(in) :: shape(:)
    character(:), allocatable :: text
    character(20) :: number
    integer :: i

    text = trim(type) // '('
    do i = 1, size(shape)
      write (number, '(i0)') shape(i)
      text = text // trim(number)
      if (i < size(shape)) text = text // ', '
    end do
    text = text // ')'
  end function

  ! Copies an array whose last dimension is contiguous (C, numpy) to one whose first dimension is.
  subroutine reorder(from, to, element_bytes, shape)
    type(c_ptr), intent(in) :: from, to
    integer(int64), intent(in) :: element_bytes, shape(rank_max)
    character(kind=c_char), pointer :: rows(:, :, :, :), columns(:, :, :, :)
    integer(int64) :: i, j, k

    if (any(shape == 0) .or. element_bytes == 0) return
    call c_f_pointer(from, rows, [element_bytes, shape(3), shape(2), shape(1)])
    call c_f_pointer(to, columns, [element_bytes, shape(1), shape(2), shape(3)])
    do k = 1, shape(3)
      do j = 1, shape(2)
        do i = 1, shape(1)
          columns(:, i, j, k) = rows(:, k, j, i)
        end do
      end do
    end do
  end subroutine
end module tidepool_format
