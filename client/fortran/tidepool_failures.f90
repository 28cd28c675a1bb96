! Module tidepool_failures: how a failure reaches the program, and texts of C.
module tidepool_failures
  use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_f_pointer, c_int, c_null_char, c_ptr
  use, intrinsic :: iso_fortran_env, only: error_unit
  use tidepool_c_api, only: tidepool_code_name, tidepool_error_remedy, tidepool_error_what, tidepool_invalid_argument, &
    tidepool_ok, tidepool_strlen
  implicit none
  private

  public :: tidepool_code_text, finish, conclude, c_string

contains

  ! Returns the name of a code, for example 'NOT_FOUND'.
  function tidepool_code_text(code) result(text)
    integer, intent(in) :: code
    character(:), allocatable :: text
    text = c_text(tidepool_code_name(int(code, c_int)))
  end function

  ! Reports the outcome of a call to the program. `text` is the cause of a failure of this module; without it the C API
  ! has the cause.
  subroutine finish(code, stat, errmsg, text)
    integer(c_int), intent(in) :: code
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(*), intent(in), optional :: text
    character(:), allocatable :: message, remedy

    if (present(stat)) stat = code
    if (code == tidepool_ok) return
    message = tidepool_code_text(code) // ': '
    if (present(text)) then
      message = message // text
    else
      message = message // c_text(tidepool_error_what())
      remedy = c_text(tidepool_error_remedy())
      if (len(remedy) > 0) message = message // ' (' // remedy // ')'
    end if
    if (present(errmsg)) errmsg = message
    if (present(stat)) return
    write (error_unit, '(2a)') 'tidepool: ', message
    error stop 1
  end subroutine

  function c_text(from) result(text)
    type(c_ptr), intent(in) :: from
    character(:), allocatable :: text
    character(kind=c_char), pointer :: view(:)
    integer :: i

    if (.not. c_associated(from)) then
      text = ''
      return
    end if
    allocate (character(tidepool_strlen(from)) :: text)
    call c_f_pointer(from, view, [len(text)])
    do i = 1, len(text)
      text(i:i) = view(i)
    end do
  end function

  ! Returns a text for C in memory of its own.
  function c_string(text) result(string)
    character(*), intent(in) :: text
    character(kind=c_char), allocatable :: string(:)
    integer :: i

    allocate (string(len_trim(text) + 1))
    do i = 1, len_trim(text)
      string(i) = text(i:i)
    end do
    string(size(string)) = c_null_char
  end function

  ! Reports a record that is there and does not fit.
  subroutine conclude(problem, stat, errmsg)
    character(*), intent(in) :: problem
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (problem == '') then
      call finish(tidepool_ok, stat, errmsg)
    else
      call finish(tidepool_invalid_argument, stat, errmsg, problem)
    end if
  end subroutine
end module tidepool_failures
