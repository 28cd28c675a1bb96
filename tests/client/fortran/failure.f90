! A failure of a call without `stat` is printed and ends the program.
program failure
  use tidepool
  implicit none
  type(tidepool_client) :: client
  type(tidepool_map) :: map
  real :: x(3)
  call client%connect()
  call map%open(client, 'fortran-failure')
  call map%get('not there', x)
  print '(a)', 'not reached'
end program failure
