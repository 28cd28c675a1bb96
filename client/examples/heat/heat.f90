! A simulation that is coupled to an analysis: heat in a plate, in parallel by MPI.
!
!   mpirun -n 4 heat [COLUMNS [ROWS [STEPS]]]
!
! Each rank has some columns of the plate. Heat flows between neighbours and leaves at no edge, so its sum stays. After
! every 10 steps each rank puts its columns into the map `heat`, and the analysis answers with a decision:
!
!   heat ->  'plate'                  [columns, rows, ranks, steps]
!   heat ->  'block STEP RANK'        temperature(rows, own columns)
!   heat <-  'decision STEP'          'continue' or 'stop'
program heat
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use mpi
  use tidepool
  implicit none

  integer, parameter :: steps_between = 10
  integer(int64), parameter :: patience_ms = 60000
  real(real64), parameter :: conductivity = 0.2_real64
  type(tidepool_client) :: client
  type(tidepool_map) :: map
  real(real64), allocatable :: now(:, :), next(:, :)
  character(8) :: decision
  integer :: rank, ranks, columns, rows, steps, first, last, step, error

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  columns = argument(1, 64)
  rows = argument(2, 48)
  steps = argument(3, 200)
  first = rank * columns / ranks + 1
  last = (rank + 1) * columns / ranks

  call client%connect()
  call map%open(client, 'heat')
  if (rank == 0) call map%put('plate', [columns, rows, ranks, steps])

  ! With a column of each neighbour.
  allocate (now(rows, first - 1:last + 1), next(rows, first - 1:last + 1))
  now = 0
  if (first <= columns / 4 .and. columns / 4 <= last) now(rows / 3, columns / 4) = 1000
  do step = 1, steps
    call exchange_edges()
    call diffuse()
    if (mod(step, steps_between) /= 0) cycle
    call map%put(key_of('block', step, rank), now(:, first:last))
    call map%get(key_of('decision', step), decision, wait_ms=patience_ms)
    if (decision == 'stop') exit
  end do
  call map%close()
  call MPI_Barrier(MPI_COMM_WORLD, error)
  if (rank == 0) then
    print '(a, i0, a)', 'heat: ended after ', min(step, steps), ' steps'
    call client%drop('heat')  ! A later run begins with an empty map.
  end if
  call client%close()
  call MPI_Finalize(error)

contains

  integer function argument(position, default)
    integer, intent(in) :: position, default
    character(20) :: text
    argument = default
    call get_command_argument(position, text)
    if (text /= '') read (text, *) argument
  end function

  function key_of(name, step, rank) result(key)
    character(*), intent(in) :: name
    integer, intent(in) :: step
    integer, intent(in), optional :: rank
    character(40) :: key
    if (present(rank)) then
      write (key, '(a, 1x, i0, 1x, i0)') name, step, rank
    else
      write (key, '(a, 1x, i0)') name, step
    end if
  end function

  ! Gets the edges of the neighbours. At the ends of the plate an edge has itself as its neighbour.
  subroutine exchange_edges()
    integer :: left, right
    left = merge(rank - 1, MPI_PROC_NULL, rank > 0)
    right = merge(rank + 1, MPI_PROC_NULL, rank < ranks - 1)
    now(:, first - 1) = now(:, first)
    now(:, last + 1) = now(:, last)
    call MPI_Sendrecv(now(:, first), rows, MPI_DOUBLE_PRECISION, left, 1, now(:, last + 1), rows, &
                      MPI_DOUBLE_PRECISION, right, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
    call MPI_Sendrecv(now(:, last), rows, MPI_DOUBLE_PRECISION, right, 2, now(:, first - 1), rows, &
                      MPI_DOUBLE_PRECISION, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
  end subroutine

  subroutine diffuse()
    integer :: i, j
    do j = first, last
      do i = 1, rows
        next(i, j) = now(i, j) + conductivity * (now(max(i - 1, 1), j) + now(min(i + 1, rows), j) + now(i, j - 1) + &
                                                 now(i, j + 1) - 4 * now(i, j))
      end do
    end do
    now(:, first:last) = next(:, first:last)
  end subroutine
end program heat
