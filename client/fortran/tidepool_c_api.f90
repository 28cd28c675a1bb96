! Module tidepool_c_api: the part of the C API that module tidepool calls.
!
! The types and functions are those of <tidepool/c/tidepool.h>, with the same names and contracts. A program that needs
! another function of the C API declares it in the same way, and takes the handles from module tidepool.
module tidepool_c_api
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int, c_int32_t, c_int64_t, c_null_ptr, c_ptr, c_size_t
  implicit none
  public

  ! tidepool_code. The list is closed.
  integer(c_int), parameter :: tidepool_ok = 0
  integer(c_int), parameter :: tidepool_cancelled = 1
  integer(c_int), parameter :: tidepool_unknown = 2
  integer(c_int), parameter :: tidepool_invalid_argument = 3
  integer(c_int), parameter :: tidepool_deadline_exceeded = 4
  integer(c_int), parameter :: tidepool_not_found = 5
  integer(c_int), parameter :: tidepool_already_exists = 6
  integer(c_int), parameter :: tidepool_permission_denied = 7
  integer(c_int), parameter :: tidepool_resource_exhausted = 8
  integer(c_int), parameter :: tidepool_failed_precondition = 9
  integer(c_int), parameter :: tidepool_aborted = 10
  integer(c_int), parameter :: tidepool_out_of_range = 11
  integer(c_int), parameter :: tidepool_unimplemented = 12
  integer(c_int), parameter :: tidepool_internal = 13
  integer(c_int), parameter :: tidepool_unavailable = 14
  integer(c_int), parameter :: tidepool_data_loss = 15
  integer(c_int), parameter :: tidepool_unauthenticated = 16
  integer(c_int), parameter :: tidepool_wrong_epoch = 17
  integer(c_int), parameter :: tidepool_overloaded = 18
  integer(c_int), parameter :: tidepool_device_error = 19

  ! A time to live without an end; a time to wait without an end.
  integer(c_int64_t), parameter :: tidepool_for_ever = -1

  ! tidepool_value_kind, tidepool_namespace_kind, tidepool_open_mode, tidepool_put_condition, tidepool_durability.
  integer(c_int), parameter :: tidepool_value_bytes = 0, tidepool_value_i64 = 1, tidepool_value_f64 = 2
  integer(c_int), parameter :: tidepool_hash = 1, tidepool_ordered = 2, tidepool_fifo = 3
  integer(c_int), parameter :: tidepool_open_existing = 0, tidepool_open_or_create = 2
  integer(c_int), parameter :: tidepool_put_always = 0, tidepool_put_if_absent = 1
  integer(c_int), parameter :: tidepool_volatile = 0, tidepool_async = 1, tidepool_sync = 2
  integer(c_int), parameter :: tidepool_fetch_add = 0

  type, bind(c) :: tidepool_bytes
    type(c_ptr) :: data = c_null_ptr
    integer(c_size_t) :: bytes = 0
  end type

  type, bind(c) :: tidepool_value_info
    integer(c_size_t) :: bytes = 0
    integer(c_int64_t) :: version = 0
    integer(c_int) :: kind = 0
  end type

  type, bind(c) :: tidepool_lease
    integer(c_int64_t) :: id = 0
    integer(c_int64_t) :: deliveries = 0
  end type

  type, bind(c) :: tidepool_item
    type(tidepool_bytes) :: value
    integer(c_int64_t) :: id = 0
    integer(c_int64_t) :: priority = 0
    integer(c_int64_t) :: deliveries = 0
  end type

  ! Options: set struct_bytes to c_sizeof of the variable before the call.
  type, bind(c) :: tidepool_connect_options
    integer(c_size_t) :: struct_bytes = 0
    type(c_ptr) :: cluster_file = c_null_ptr
    type(c_ptr) :: client_name = c_null_ptr
    type(c_ptr) :: devices = c_null_ptr
    integer(c_int64_t) :: call_timeout_ms = 0
    integer(c_int64_t) :: connect_timeout_ms = 0
    integer(c_int64_t) :: direct_read_bytes_max = 0
    integer(c_int) :: wait = 0
    integer(c_int) :: transport = 0
    integer(c_int) :: uncounted = 0
    integer(c_int) :: insecure = 0
    integer(c_int) :: no_direct_reads = 0
    integer(c_int) :: no_remote_reads = 0
    integer(c_int) :: background_progress = 0
    integer(c_int) :: reserved = 0
  end type

  type, bind(c) :: tidepool_namespace_options
    integer(c_size_t) :: struct_bytes = 0
    integer(c_int64_t) :: ttl_ms = 0
    integer(c_int64_t) :: expected_items = 0
    integer(c_int64_t) :: capacity = 0
    real(c_double) :: false_positive_rate = 0
    integer(c_int32_t) :: partitions = 0
    integer(c_int32_t) :: replicas = 0
    integer(c_int32_t) :: memory_share_percent = 0
    integer(c_int32_t) :: lanes = 0
    integer(c_int) :: durability = 0
    integer(c_int) :: on_loss = 0
    integer(c_int) :: medium = 0
    integer(c_int) :: prefilter = 0
    integer(c_int) :: split = 0
    integer(c_int32_t) :: reserved = 0
    type(c_ptr) :: home = c_null_ptr
    type(c_ptr) :: key_type = c_null_ptr
    type(c_ptr) :: value_type = c_null_ptr
    type(c_ptr) :: split_keys = c_null_ptr
    integer(c_size_t) :: split_key_count = 0
  end type

  type, bind(c) :: tidepool_call_options
    integer(c_size_t) :: struct_bytes = 0
    integer(c_int64_t) :: timeout_ms = 0
    integer(c_int32_t) :: promises = 0
    integer(c_int32_t) :: reserved = 0
    type(c_ptr) :: receipt = c_null_ptr
  end type

  type, bind(c) :: tidepool_put_options
    integer(c_size_t) :: struct_bytes = 0
    integer(c_int64_t) :: timeout_ms = 0
    integer(c_int64_t) :: ttl_ms = 0
    integer(c_int64_t) :: if_version = 0
    integer(c_int) :: condition = 0
    integer(c_int) :: kind = 0
    integer(c_int32_t) :: promises = 0
    integer(c_int32_t) :: reserved = 0
    type(c_ptr) :: receipt = c_null_ptr
  end type

  type, bind(c) :: tidepool_push_options
    integer(c_size_t) :: struct_bytes = 0
    integer(c_int64_t) :: ttl_ms = 0
    integer(c_int64_t) :: wait_ms = 0
    integer(c_int64_t) :: timeout_ms = 0
    integer(c_int32_t) :: promises = 0
    integer(c_int32_t) :: reserved = 0
    type(c_ptr) :: receipt = c_null_ptr
  end type

  type, bind(c) :: tidepool_pop_options
    integer(c_size_t) :: struct_bytes = 0
    integer(c_int64_t) :: lease_ms = 0
    integer(c_int64_t) :: wait_ms = 0
    integer(c_int64_t) :: timeout_ms = 0
    integer(c_int32_t) :: promises = 0
    integer(c_int32_t) :: reserved = 0
    type(c_ptr) :: receipt = c_null_ptr
  end type

  interface
    function tidepool_code_name(code) bind(c) result(text)
      import :: c_int, c_ptr
      integer(c_int), value :: code
      type(c_ptr) :: text
    end function

    function tidepool_error_what() bind(c) result(text)
      import :: c_ptr
      type(c_ptr) :: text
    end function

    function tidepool_error_remedy() bind(c) result(text)
      import :: c_ptr
      type(c_ptr) :: text
    end function

    function tidepool_connect(options, client) bind(c) result(code)
      import :: c_int, c_ptr, tidepool_connect_options
      type(tidepool_connect_options), intent(in) :: options
      type(c_ptr), intent(out) :: client
      integer(c_int) :: code
    end function

    subroutine tidepool_client_free(client) bind(c)
      import :: c_ptr
      type(c_ptr), value :: client
    end subroutine

    function tidepool_client_drop(client, name) bind(c) result(code)
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: client
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int) :: code
    end function

    function tidepool_namespace_open(client, name, kind, mode, options, space) bind(c) result(code)
      import :: c_char, c_int, c_ptr, tidepool_namespace_options
      type(c_ptr), value :: client
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: kind, mode
      type(tidepool_namespace_options), intent(in) :: options
      type(c_ptr), intent(out) :: space
      integer(c_int) :: code
    end function

    subroutine tidepool_namespace_free(space) bind(c)
      import :: c_ptr
      type(c_ptr), value :: space
    end subroutine

    function tidepool_map_put(map, key, key_bytes, value, value_bytes, options, version) bind(c) result(code)
      import :: c_char, c_int, c_ptr, c_size_t, tidepool_put_options
      type(c_ptr), value :: map, value, version
      character(kind=c_char), intent(in) :: key(*)
      integer(c_size_t), value :: key_bytes, value_bytes
      type(tidepool_put_options), intent(in) :: options
      integer(c_int) :: code
    end function

    function tidepool_map_get(map, key, key_bytes, buffer, buffer_bytes, options, info) bind(c) result(code)
      import :: c_char, c_int, c_ptr, c_size_t, tidepool_call_options, tidepool_value_info
      type(c_ptr), value :: map, buffer
      character(kind=c_char), intent(in) :: key(*)
      integer(c_size_t), value :: key_bytes, buffer_bytes
      type(tidepool_call_options), intent(in) :: options
      type(tidepool_value_info), intent(out) :: info
      integer(c_int) :: code
    end function

    function tidepool_map_get_value(map, key, key_bytes, options, value) bind(c) result(code)
      import :: c_char, c_int, c_ptr, c_size_t, tidepool_call_options
      type(c_ptr), value :: map
      character(kind=c_char), intent(in) :: key(*)
      integer(c_size_t), value :: key_bytes
      type(tidepool_call_options), intent(in) :: options
      type(c_ptr), intent(out) :: value
      integer(c_int) :: code
    end function

    function tidepool_map_wait_for_key(map, key, key_bytes, options, value) bind(c) result(code)
      import :: c_char, c_int, c_ptr, c_size_t, tidepool_call_options
      type(c_ptr), value :: map
      character(kind=c_char), intent(in) :: key(*)
      integer(c_size_t), value :: key_bytes
      type(tidepool_call_options), intent(in) :: options
      type(c_ptr), intent(out) :: value
      integer(c_int) :: code
    end function

    function tidepool_value_view(value, bytes, info) bind(c) result(code)
      import :: c_int, c_ptr, tidepool_bytes, tidepool_value_info
      type(c_ptr), value :: value
      type(tidepool_bytes), intent(out) :: bytes
      type(tidepool_value_info), intent(out) :: info
      integer(c_int) :: code
    end function

    subroutine tidepool_value_free(value) bind(c)
      import :: c_ptr
      type(c_ptr), value :: value
    end subroutine

    function tidepool_map_delete(map, key, key_bytes, options) bind(c) result(code)
      import :: c_char, c_int, c_ptr, c_size_t
      type(c_ptr), value :: map, options
      character(kind=c_char), intent(in) :: key(*)
      integer(c_size_t), value :: key_bytes
      integer(c_int) :: code
    end function

    function tidepool_map_contains(map, key, key_bytes, options, present) bind(c) result(code)
      import :: c_char, c_int, c_ptr, c_size_t
      type(c_ptr), value :: map, options
      character(kind=c_char), intent(in) :: key(*)
      integer(c_size_t), value :: key_bytes
      integer(c_int), intent(out) :: present
      integer(c_int) :: code
    end function

    function tidepool_map_length(map, options, records) bind(c) result(code)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: map, options
      integer(c_int64_t), intent(out) :: records
      integer(c_int) :: code
    end function

    function tidepool_map_fetch(map, operation, key, key_bytes, operand, options, before) bind(c) result(code)
      import :: c_char, c_int, c_int64_t, c_ptr, c_size_t
      type(c_ptr), value :: map, options
      integer(c_int), value :: operation
      character(kind=c_char), intent(in) :: key(*)
      integer(c_size_t), value :: key_bytes
      integer(c_int64_t), value :: operand
      integer(c_int64_t), intent(out) :: before
      integer(c_int) :: code
    end function

    function tidepool_map_fetch_f64(map, operation, key, key_bytes, operand, options, before) bind(c) result(code)
      import :: c_char, c_double, c_int, c_ptr, c_size_t
      type(c_ptr), value :: map, options
      integer(c_int), value :: operation
      character(kind=c_char), intent(in) :: key(*)
      integer(c_size_t), value :: key_bytes
      real(c_double), value :: operand
      real(c_double), intent(out) :: before
      integer(c_int) :: code
    end function

    function tidepool_queue_push(queue, priority, value, value_bytes, options, id) bind(c) result(code)
      import :: c_char, c_int, c_int64_t, c_ptr, c_size_t, tidepool_push_options
      type(c_ptr), value :: queue, id
      integer(c_int64_t), value :: priority
      character(kind=c_char), intent(in) :: value(*)
      integer(c_size_t), value :: value_bytes
      type(tidepool_push_options), intent(in) :: options
      integer(c_int) :: code
    end function

    function tidepool_queue_pop(queue, options, items) bind(c) result(code)
      import :: c_int, c_ptr, tidepool_pop_options
      type(c_ptr), value :: queue
      type(tidepool_pop_options), intent(in) :: options
      type(c_ptr), intent(out) :: items
      integer(c_int) :: code
    end function

    function tidepool_items_get(items, at, item) bind(c) result(code)
      import :: c_int, c_ptr, c_size_t, tidepool_item
      type(c_ptr), value :: items
      integer(c_size_t), value :: at
      type(tidepool_item), intent(out) :: item
      integer(c_int) :: code
    end function

    subroutine tidepool_items_free(items) bind(c)
      import :: c_ptr
      type(c_ptr), value :: items
    end subroutine

    function tidepool_queue_ack(queue, lease, options) bind(c) result(code)
      import :: c_int, c_ptr, tidepool_lease
      type(c_ptr), value :: queue, options
      type(tidepool_lease), intent(in) :: lease
      integer(c_int) :: code
    end function

    ! Of the C library.
    function tidepool_strlen(text) bind(c, name='strlen') result(bytes)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
      integer(c_size_t) :: bytes
    end function

    function tidepool_memcpy(to, from, bytes) bind(c, name='memcpy') result(same)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: to, from
      integer(c_size_t), value :: bytes
      type(c_ptr) :: same
    end function
  end interface
end module tidepool_c_api
