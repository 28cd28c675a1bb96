! Checks for the test programs of the Fortran module. A check that fails says which, and ends the program.
module checks
  use, intrinsic :: iso_fortran_env, only: error_unit
  use tidepool
  implicit none

  character(400) :: message = ''
  integer :: stat = 0

contains

  subroutine check(condition, what)
    logical, intent(in) :: condition
    character(*), intent(in) :: what
    if (condition) return
    write (error_unit, '(5a)') 'failed: ', what, ' (', trim(message), ')'
    error stop 1
  end subroutine

  ! Checks the outcome of a call, in `stat` and `message`.
  subroutine is(code, words)
    integer, intent(in) :: code
    character(*), intent(in) :: words
    call check(stat == code, tidepool_code_text(code) // ' expected, got ' // tidepool_code_text(stat))
    call check(index(message, tidepool_code_text(code) // ': ') == 1, 'the message begins with the code')
    call check(index(message, words) > 0, 'the message says: ' // words)
  end subroutine
end module checks
