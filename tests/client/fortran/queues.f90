! Queues of bytes: order, leases, waits.
program queues
  use, intrinsic :: iso_fortran_env, only: int64
  use checks
  implicit none

  type(tidepool_client) :: client
  type(tidepool_queue) :: queue
  type(tidepool_lease) :: lease, again
  character(:), allocatable :: item

  call client%connect()
  call queue%open(client, 'fortran-queue', capacity=2_int64)
  call queue%push('first')
  call queue%push('second ')
  call queue%push('third', stat=stat, errmsg=message)
  call is(tidepool_resource_exhausted, '')
  call queue%pop(item)
  call check(item == 'first' .and. len(item) == 5, 'the first item')
  call queue%pop(item, lease_ms=60000_int64, lease=lease)
  call check(item == 'second ' .and. len(item) == 7, 'blanks of an item stay')
  call queue%ack(lease)
  call queue%ack(lease, stat=stat, errmsg=message)
  call is(tidepool_not_found, '')
  call queue%pop(item, stat=stat, errmsg=message)
  call is(tidepool_not_found, '')
  call queue%pop(item, wait_ms=50_int64, stat=stat, errmsg=message)
  call is(tidepool_deadline_exceeded, '')
  call queue%pop(item, lease_ms=1000_int64, stat=stat, errmsg=message)
  call is(tidepool_invalid_argument, 'belong together')
  call queue%push('leased')
  call queue%pop(item, lease_ms=1_int64, lease=lease)
  call queue%pop(item, wait_ms=60000_int64, lease_ms=60000_int64, lease=again)
  call check(item == 'leased' .and. again%deliveries == 2, 'an item whose lease ended comes back')
  call queue%ack(lease, stat=stat, errmsg=message)
  call is(tidepool_failed_precondition, '')
  call queue%ack(again)
  call queue%close()
  call client%drop('fortran-queue')
  call client%close()
  print '(a)', 'queues: all is well'
end program queues
