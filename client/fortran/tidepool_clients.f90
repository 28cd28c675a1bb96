! Module tidepool_clients: connections, and queues of bytes.
module tidepool_clients
  use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_int, c_loc, c_null_ptr, c_ptr, c_size_t, c_sizeof
  use, intrinsic :: iso_fortran_env, only: int64
  use tidepool_c_api
  use tidepool_failures, only: c_string, finish
  use tidepool_records, only: text_at
  implicit none
  private

  public :: open_space

  ! A connection. One per process is the rule. A copy of the variable is the same connection: close it once.
  type, public :: tidepool_client
    type(c_ptr) :: handle = c_null_ptr  ! For functions of the C API that this module lacks.
  contains
    procedure :: connect
    procedure :: drop
    procedure :: close => close_client
  end type

  ! A namespace of kind queue. Its items are bytes.
  type, public :: tidepool_queue
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: open => open_queue
    procedure :: close => close_queue
    procedure :: push
    procedure :: pop
    procedure :: ack
  end type

contains

  ! Connects to the cluster that `cluster_file` describes; without it to the cluster of the job or of the user, as kvctl
  ! finds it. `timeout_ms` holds for calls that say nothing else.
  subroutine connect(self, cluster_file, timeout_ms, insecure, stat, errmsg)
    class(tidepool_client), intent(inout) :: self
    character(*), intent(in), optional :: cluster_file
    integer(int64), intent(in), optional :: timeout_ms
    logical, intent(in), optional :: insecure
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(tidepool_connect_options) :: options
    character(kind=c_char), allocatable, target :: file(:)

    if (c_associated(self%handle)) then
      call finish(tidepool_failed_precondition, stat, errmsg, 'this variable is connected already (close it first)')
      return
    end if
    options%struct_bytes = c_sizeof(options)
    if (present(cluster_file)) then
      file = c_string(cluster_file)
      options%cluster_file = c_loc(file)
    end if
    if (present(timeout_ms)) options%call_timeout_ms = timeout_ms
    if (present(insecure)) options%insecure = merge(1, 0, insecure)
    call finish(tidepool_connect(options, self%handle), stat, errmsg)
  end subroutine

  ! Drops a namespace with its records.
  subroutine drop(self, name, stat, errmsg)
    class(tidepool_client), intent(in) :: self
    character(*), intent(in) :: name
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(tidepool_client_drop(self%handle, c_string(name)), stat, errmsg)
  end subroutine

  ! Closes the connection. It lasts while maps and queues of it are open.
  subroutine close_client(self)
    class(tidepool_client), intent(inout) :: self
    call tidepool_client_free(self%handle)
    self%handle = c_null_ptr
  end subroutine

  ! Opens a queue, as `open` of a map. `capacity` bounds its items.
  subroutine open_queue(self, client, name, create, durability, capacity, stat, errmsg)
    class(tidepool_queue), intent(inout) :: self
    class(tidepool_client), intent(in) :: client
    character(*), intent(in) :: name
    logical, intent(in), optional :: create
    integer, intent(in), optional :: durability
    integer(int64), intent(in), optional :: capacity
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(tidepool_namespace_options) :: options

    if (present(durability)) options%durability = durability
    if (present(capacity)) options%capacity = capacity
    call open_space(self%handle, client, name, tidepool_fifo, create, options, stat, errmsg)
  end subroutine

  subroutine close_queue(self)
    class(tidepool_queue), intent(inout) :: self
    call tidepool_namespace_free(self%handle)
    self%handle = c_null_ptr
  end subroutine

  subroutine open_space(handle, client, name, kind, create, options, stat, errmsg)
    type(c_ptr), intent(inout) :: handle
    class(tidepool_client), intent(in) :: client
    character(*), intent(in) :: name
    integer(c_int), intent(in) :: kind
    logical, intent(in), optional :: create
    type(tidepool_namespace_options), intent(inout) :: options
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int) :: mode

    if (c_associated(handle)) then
      call finish(tidepool_failed_precondition, stat, errmsg, 'this variable is open already (close it first)')
      return
    end if
    mode = tidepool_open_or_create
    if (present(create)) mode = merge(tidepool_open_or_create, tidepool_open_existing, create)
    options%struct_bytes = c_sizeof(options)
    call finish(tidepool_namespace_open(client%handle, c_string(name), kind, mode, options, handle), stat, errmsg)
  end subroutine

  ! Pushes an item. `wait_ms`: how long to wait for room.
  subroutine push(self, item, wait_ms, stat, errmsg)
    class(tidepool_queue), intent(in) :: self
    character(*), intent(in) :: item
    integer(int64), intent(in), optional :: wait_ms
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(tidepool_push_options) :: options

    options%struct_bytes = c_sizeof(options)
    if (present(wait_ms)) options%wait_ms = wait_ms
    call finish(tidepool_queue_push(self%handle, 0_int64, item, len(item, c_size_t), options, c_null_ptr), stat, errmsg)
  end subroutine

  ! Pops the next item. `wait_ms`: how long to wait for an item. With `lease_ms` and `lease` the item comes back unless
  ! it is acked in that time.
  subroutine pop(self, item, wait_ms, lease_ms, lease, stat, errmsg)
    class(tidepool_queue), intent(in) :: self
    character(:), allocatable, intent(out) :: item
    integer(int64), intent(in), optional :: wait_ms, lease_ms
    type(tidepool_lease), intent(out), optional :: lease
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(tidepool_pop_options) :: options
    type(tidepool_item) :: popped
    type(c_ptr) :: items
    integer(c_int) :: code

    item = ''
    if (present(lease_ms) .neqv. present(lease)) then
      call finish(tidepool_invalid_argument, stat, errmsg, 'lease_ms and lease belong together')
      return
    end if
    options%struct_bytes = c_sizeof(options)
    if (present(wait_ms)) options%wait_ms = wait_ms
    if (present(lease_ms)) options%lease_ms = lease_ms
    code = tidepool_queue_pop(self%handle, options, items)
    if (code == tidepool_ok) then
      code = tidepool_items_get(items, 0_c_size_t, popped)
      if (code == tidepool_ok) then
        item = text_at(popped%value)
        if (present(lease)) lease = tidepool_lease(popped%id, popped%deliveries)
      end if
      call tidepool_items_free(items)
    end if
    call finish(code, stat, errmsg)
  end subroutine

  ! Removes an item that was popped with a lease.
  subroutine ack(self, lease, stat, errmsg)
    class(tidepool_queue), intent(in) :: self
    type(tidepool_lease), intent(in) :: lease
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(tidepool_queue_ack(self%handle, lease, c_null_ptr), stat, errmsg)
  end subroutine
end module tidepool_clients
