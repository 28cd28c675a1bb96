! The analysis of heat.f90: puts the blocks of all ranks together, prints what it finds, and stops the simulation when
! the hottest place is below a limit.
!
!   analysis [LIMIT]
program analysis
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use tidepool
  implicit none

  integer(int64), parameter :: patience_ms = 60000
  type(tidepool_client) :: client
  type(tidepool_map) :: map
  type(tidepool_record) :: block
  real(real64), allocatable :: plate(:, :)
  real(real64) :: limit
  integer :: about(4)  ! Columns, rows, ranks, steps.
  integer :: step, rank, column
  character(40) :: text

  limit = 0
  call get_command_argument(1, text)
  if (text /= '') read (text, *) limit
  call client%connect()
  call map%open(client, 'heat')
  call map%get('plate', about, wait_ms=patience_ms)
  allocate (plate(about(2), about(1)))
  do step = 10, about(4), 10
    column = 1
    do rank = 0, about(3) - 1
      write (text, '(a, i0, 1x, i0)') 'block ', step, rank
      call map%inquire(text, block, wait_ms=patience_ms)
      call map%get(text, plate(:, column:column + int(block%shape(2)) - 1))
      call map%delete(text)
      column = column + int(block%shape(2))
    end do
    print '(a, i0, a, f10.4, a, f10.4, a, f8.4)', 'step ', step, ': heat ', sum(plate), ', hottest ', maxval(plate), &
      ', coldest ', minval(plate)
    write (text, '(a, i0)') 'decision ', step
    if (maxval(plate) < limit) then
      call map%put(text, 'stop')
      exit
    end if
    call map%put(text, 'continue')
  end do
  call map%close()
  call client%close()
end program analysis
