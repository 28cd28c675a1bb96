! Module tidepool: maps and queues of a Tidepool cluster for Fortran 2008.
!
!   use tidepool
!   type(tidepool_client) :: client
!   type(tidepool_map) :: map
!   call client%connect()
!   call map%open(client, 'fields')
!   call map%put('step 1', temperature)
!
! Each call has the optional arguments `stat` and `errmsg`, which work as those of ALLOCATE: `stat` is tidepool_ok or
! another code of module tidepool_c_api, `errmsg` says what happened. A failure of a call without `stat` is printed and
! ends the program. README.md has the rules of keys, values and types.
module tidepool
  use, intrinsic :: iso_c_binding, only: c_int, c_loc, c_null_ptr, c_ptr, c_size_t
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use tidepool_c_api
  use tidepool_clients, only: open_space, tidepool_client, tidepool_queue
  use tidepool_failures, only: conclude, finish, tidepool_code_text
  use tidepool_format, only: array_format, rank_max, read_header
  use tidepool_records
  implicit none
  private

  public :: tidepool_client, tidepool_queue, tidepool_code_text
  public :: tidepool_ok, tidepool_cancelled, tidepool_unknown, tidepool_invalid_argument, tidepool_deadline_exceeded, &
    tidepool_not_found, tidepool_already_exists, tidepool_permission_denied, tidepool_resource_exhausted, &
    tidepool_failed_precondition, tidepool_aborted, tidepool_out_of_range, tidepool_unimplemented, tidepool_internal, &
    tidepool_unavailable, tidepool_data_loss, tidepool_unauthenticated, tidepool_wrong_epoch, tidepool_overloaded, &
    tidepool_device_error, tidepool_for_ever, tidepool_volatile, tidepool_async, tidepool_sync, tidepool_lease

  ! What a record holds.
  type, public :: tidepool_record
    character(16) :: type = ''    ! 'i4', 'i8', 'f4', 'f8', 'S' and a length; 'integer', 'real', 'bytes' have rank 0.
    integer :: rank = 0
    integer(int64) :: shape(rank_max) = 1
    integer(int64) :: bytes = 0   ! Of the stored record.
    integer(int64) :: version = 0
  end type

  ! A namespace of kind hash or ordered. Any number of threads may use it.
  type, public :: tidepool_map
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: open => open_map
    procedure :: close => close_map
    procedure :: delete
    procedure :: contains => contains_key
    procedure :: length
    procedure :: inquire => inquire_record
    procedure :: get_text
    procedure, private :: add_i8, add_f8
    generic :: fetch_add => add_i8, add_f8
    procedure, private :: put_i4_0, put_i8_0, put_f4_0, put_f8_0, put_text_0
    procedure, private :: put_i4_1, put_i8_1, put_f4_1, put_f8_1, put_text_1
    procedure, private :: put_i4_2, put_i8_2, put_f4_2, put_f8_2, put_text_2
    procedure, private :: put_i4_3, put_i8_3, put_f4_3, put_f8_3, put_text_3
    generic :: put => put_i4_0, put_i8_0, put_f4_0, put_f8_0, put_text_0, put_i4_1, put_i8_1, put_f4_1, put_f8_1, &
      put_text_1, put_i4_2, put_i8_2, put_f4_2, put_f8_2, put_text_2, put_i4_3, put_i8_3, put_f4_3, put_f8_3, put_text_3
    procedure, private :: get_i4_0, get_i8_0, get_f4_0, get_f8_0, get_text_0
    procedure, private :: get_i4_1, get_i8_1, get_f4_1, get_f8_1, get_text_1
    procedure, private :: get_i4_2, get_i8_2, get_f4_2, get_f8_2, get_text_2
    procedure, private :: get_i4_3, get_i8_3, get_f4_3, get_f8_3, get_text_3
    generic :: get => get_i4_0, get_i8_0, get_f4_0, get_f8_0, get_text_0, get_i4_1, get_i8_1, get_f4_1, get_f8_1, &
      get_text_1, get_i4_2, get_i8_2, get_f4_2, get_f8_2, get_text_2, get_i4_3, get_i8_3, get_f4_3, get_f8_3, get_text_3
  end type

contains

  ! Opens a map. It is created if it does not exist, unless `create` is .false.
  subroutine open_map(self, client, name, ordered, create, durability, ttl_ms, partitions, stat, errmsg)
    class(tidepool_map), intent(inout) :: self
    class(tidepool_client), intent(in) :: client
    character(*), intent(in) :: name
    logical, intent(in), optional :: ordered, create
    integer, intent(in), optional :: durability, partitions
    integer(int64), intent(in), optional :: ttl_ms
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(tidepool_namespace_options) :: options
    integer(c_int) :: kind

    kind = tidepool_hash
    if (present(ordered)) kind = merge(tidepool_ordered, tidepool_hash, ordered)
    if (present(durability)) options%durability = durability
    if (present(ttl_ms)) options%ttl_ms = ttl_ms
    if (present(partitions)) options%partitions = partitions
    call open_space(self%handle, client, name, kind, create, options, stat, errmsg)
  end subroutine

  subroutine close_map(self)
    class(tidepool_map), intent(inout) :: self
    call tidepool_namespace_free(self%handle)
    self%handle = c_null_ptr
  end subroutine

  ! Deletes a record. A key that is not there is tidepool_not_found.
  subroutine delete(self, key, stat, errmsg)
    class(tidepool_map), intent(in) :: self
    character(*), intent(in) :: key
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(tidepool_map_delete(self%handle, key, key_bytes(key), c_null_ptr), stat, errmsg)
  end subroutine

  function contains_key(self, key, stat, errmsg) result(found)
    class(tidepool_map), intent(in) :: self
    character(*), intent(in) :: key
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    logical :: found
    integer(c_int) :: present

    present = 0
    call finish(tidepool_map_contains(self%handle, key, key_bytes(key), c_null_ptr, present), stat, errmsg)
    found = present == 1
  end function

  ! Returns the number of records.
  function length(self, stat, errmsg) result(records)
    class(tidepool_map), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(int64) :: records

    records = 0
    call finish(tidepool_map_length(self%handle, c_null_ptr, records), stat, errmsg)
  end function

  ! Describes a record, so that the program can allocate an array for it.
  subroutine inquire_record(self, key, record, wait_ms, timeout_ms, stat, errmsg)
    class(tidepool_map), intent(in) :: self
    character(*), intent(in) :: key
    type(tidepool_record), intent(out) :: record
    integer(int64), intent(in), optional :: wait_ms, timeout_ms
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_ptr) :: value
    type(tidepool_bytes) :: bytes
    type(tidepool_value_info) :: info
    type(array_format) :: format
    integer(c_int) :: code

    code = fetch(self%handle, key, wait_ms, timeout_ms, value, bytes, info)
    call finish(code, stat, errmsg)
    if (code /= tidepool_ok) return
    record%bytes = bytes%bytes
    record%version = info%version
    if (info%kind == tidepool_value_i64) then
      record%type = 'integer'
    else if (info%kind == tidepool_value_f64) then
      record%type = 'real'
    else
      format = read_header(bytes%data, bytes%bytes)
      record%type = 'bytes'
      if (format%problem == '') then
        record%type = format%type
        record%rank = format%rank
        record%shape = format%shape
      end if
    end if
    call tidepool_value_free(value)
  end subroutine

  ! Adds to a counter. `before` is its number before; a key that is absent counts as 0.
  subroutine add_i8(self, key, operand, before, stat, errmsg)
    class(tidepool_map), intent(in) :: self
    character(*), intent(in) :: key
    integer(int64), intent(in) :: operand
    integer(int64), intent(out) :: before
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    before = 0
    call finish(tidepool_map_fetch(self%handle, tidepool_fetch_add, key, key_bytes(key), operand, c_null_ptr, before), &
                stat, errmsg)
  end subroutine

  subroutine add_f8(self, key, operand, before, stat, errmsg)
    class(tidepool_map), intent(in) :: self
    character(*), intent(in) :: key
    real(real64), intent(in) :: operand
    real(real64), intent(out) :: before
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    before = 0
    call finish(tidepool_map_fetch_f64(self%handle, tidepool_fetch_add, key, key_bytes(key), operand, c_null_ptr, &
                                       before), stat, errmsg)
  end subroutine

  subroutine put_i4_0(self, key, value, plain, if_absent, ttl_ms, timeout_ms, stat, errmsg)
    integer(int32), intent(in), target :: value
    include 'put.inc'
    if (is_plain(plain)) then
      call store(self%handle, key, c_loc(value), 4_c_size_t, tidepool_value_bytes, if_absent, ttl_ms, timeout_ms, stat, errmsg)
    else
      call self%put(key, int(value, int64), plain, if_absent, ttl_ms, timeout_ms, stat, errmsg)
    end if
  end subroutine

  subroutine put_i8_0(self, key, value, plain, if_absent, ttl_ms, timeout_ms, stat, errmsg)
    integer(int64), intent(in), target :: value
    include 'put.inc'
    call store(self%handle, key, c_loc(value), 8_c_size_t, merge(tidepool_value_bytes, tidepool_value_i64, is_plain(plain)), &
               if_absent, ttl_ms, timeout_ms, stat, errmsg)
  end subroutine

  subroutine put_f4_0(self, key, value, plain, if_absent, ttl_ms, timeout_ms, stat, errmsg)
    real(real32), intent(in), target :: value
    include 'put.inc'
    if (is_plain(plain)) then
      call store(self%handle, key, c_loc(value), 4_c_size_t, tidepool_value_bytes, if_absent, ttl_ms, timeout_ms, stat, errmsg)
    else
      call self%put(key, real(value, real64), plain, if_absent, ttl_ms, timeout_ms, stat, errmsg)
    end if
  end subroutine

  subroutine put_f8_0(self, key, value, plain, if_absent, ttl_ms, timeout_ms, stat, errmsg)
    real(real64), intent(in), target :: value
    include 'put.inc'
    call store(self%handle, key, c_loc(value), 8_c_size_t, merge(tidepool_value_bytes, tidepool_value_f64, is_plain(plain)), &
               if_absent, ttl_ms, timeout_ms, stat, errmsg)
  end subroutine

  ! A text is stored as its bytes, with and without `plain`.
  subroutine put_text_0(self, key, value, plain, if_absent, ttl_ms, timeout_ms, stat, errmsg)
    character(*), intent(in) :: value
    include 'put.inc'
    call put_text(self%handle, key, len(value, c_size_t), value, if_absent, ttl_ms, timeout_ms, stat, errmsg)
    if (.false. .and. is_plain(plain)) return  ! An argument that is not needed.
  end subroutine

  subroutine get_i4_0(self, key, value, plain, wait_ms, timeout_ms, stat, errmsg)
    integer(int32), intent(inout), target :: value
    include 'get.inc'
    integer(int64) :: whole
    integer :: outcome
    if (is_plain(plain)) then
      call get_plain(self%handle, key, wait_ms, timeout_ms, c_loc(value), 4_c_size_t, stat, errmsg)
      return
    end if
    whole = value
    if (present(stat)) then
      call self%get(key, whole, plain, wait_ms, timeout_ms, outcome, errmsg)
      stat = outcome
      if (outcome /= tidepool_ok) return
    else
      call self%get(key, whole, plain, wait_ms, timeout_ms, errmsg=errmsg)
    end if
    if (whole >= -int(huge(value), int64) - 1 .and. whole <= huge(value)) then
      value = int(whole, int32)
    else
      call finish(tidepool_out_of_range, stat, errmsg, 'the number does not fit 32 bits (get it into integer(int64))')
    end if
  end subroutine

  subroutine get_i8_0(self, key, value, plain, wait_ms, timeout_ms, stat, errmsg)
    integer(int64), intent(inout), target :: value
    include 'get.inc'
    integer(int64) :: whole
    real(real64) :: float
    logical :: is_whole
    integer(c_int) :: code
    character(:), allocatable :: problem
    if (is_plain(plain)) then
      call get_plain(self%handle, key, wait_ms, timeout_ms, c_loc(value), 8_c_size_t, stat, errmsg)
      return
    end if
    call get_number(self%handle, key, wait_ms, timeout_ms, is_whole, whole, float, code, problem)
    if (code /= tidepool_ok) then
      call finish(code, stat, errmsg)
      return
    end if
    if (problem == '' .and. .not. is_whole) problem = 'the record is a real number (get it into a real variable)'
    if (problem == '') value = whole
    call conclude(problem, stat, errmsg)
  end subroutine

  subroutine get_f4_0(self, key, value, plain, wait_ms, timeout_ms, stat, errmsg)
    real(real32), intent(inout), target :: value
    include 'get.inc'
    real(real64) :: float
    integer :: outcome
    if (is_plain(plain)) then
      call get_plain(self%handle, key, wait_ms, timeout_ms, c_loc(value), 4_c_size_t, stat, errmsg)
      return
    end if
    float = value
    if (present(stat)) then
      call self%get(key, float, plain, wait_ms, timeout_ms, outcome, errmsg)
      stat = outcome
      if (outcome /= tidepool_ok) return
    else
      call self%get(key, float, plain, wait_ms, timeout_ms, errmsg=errmsg)
    end if
    value = real(float, real32)
  end subroutine

  ! A whole number becomes a real number.
  subroutine get_f8_0(self, key, value, plain, wait_ms, timeout_ms, stat, errmsg)
    real(real64), intent(inout), target :: value
    include 'get.inc'
    integer(int64) :: whole
    real(real64) :: float
    logical :: is_whole
    integer(c_int) :: code
    character(:), allocatable :: problem
    if (is_plain(plain)) then
      call get_plain(self%handle, key, wait_ms, timeout_ms, c_loc(value), 8_c_size_t, stat, errmsg)
      return
    end if
    call get_number(self%handle, key, wait_ms, timeout_ms, is_whole, whole, float, code, problem)
    if (code /= tidepool_ok) then
      call finish(code, stat, errmsg)
      return
    end if
    if (problem == '') value = merge(real(whole, real64), float, is_whole)
    call conclude(problem, stat, errmsg)
  end subroutine

  ! Gets a text; a shorter one is filled with blanks, a longer one does not fit.
  subroutine get_text_0(self, key, value, plain, wait_ms, timeout_ms, stat, errmsg)
    character(*), intent(inout) :: value
    include 'get.inc'
    character(:), allocatable :: text
    integer :: outcome
    if (present(stat)) then
      call self%get_text(key, text, wait_ms, timeout_ms, outcome, errmsg)
      stat = outcome
      if (outcome /= tidepool_ok) return
    else
      call self%get_text(key, text, wait_ms, timeout_ms, errmsg=errmsg)
    end if
    if (len(text) > len(value) .or. (is_plain(plain) .and. len(text) /= len(value))) then
      call conclude(plain_problem(len(text, int64), len(value, int64)), stat, errmsg)
    else
      value = text
    end if
  end subroutine

  ! Gets the bytes of a record of any size.
  subroutine get_text(self, key, value, wait_ms, timeout_ms, stat, errmsg)
    class(tidepool_map), intent(in) :: self
    character(*), intent(in) :: key
    character(:), allocatable, intent(out) :: value
    integer(int64), intent(in), optional :: wait_ms, timeout_ms
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_ptr) :: record
    type(tidepool_bytes) :: bytes
    type(tidepool_value_info) :: info
    integer(c_int) :: code

    value = ''
    code = fetch(self%handle, key, wait_ms, timeout_ms, record, bytes, info)
    if (code == tidepool_ok) then
      value = text_at(bytes)
      call tidepool_value_free(record)
    end if
    call finish(code, stat, errmsg)
  end subroutine

  subroutine put_i4_1(self, key, value, plain, if_absent, ttl_ms, timeout_ms, stat, errmsg)
    integer(int32), intent(in), contiguous, target :: value(:)
    character(*), parameter :: type = 'i4'
    include 'put_array.inc'
  end subroutine

  subroutine put_i8_1(self, key, value, plain, if_absent, ttl_ms, timeout_ms, stat, errmsg)
    integer(int64), intent(in), contiguous, target :: value(:)
    character(*), parameter :: type = 'i8'
    include 'put_array.inc'
  end subroutine

  subroutine put_f4_1(self, key, value, plain, if_absent, ttl_ms, timeout_ms, stat, errmsg)
    real(real32), intent(in), contiguous, target :: value(:)
    character(*), parameter :: type = 'f4'
    include 'put_array.inc'
  end subroutine

  subroutine put_f8_1(self, key, value, plain, if_absent, ttl_ms, timeout_ms, stat, errmsg)
    real(real64), intent(in), contiguous, target :: value(:)
    character(*), parameter :: type = 'f8'
    include 'put_array.inc'
  end subroutine

  subroutine put_text_1(self, key, value, plain, if_absent, ttl_ms, timeout_ms, stat, errmsg)
    character(*), intent(in), contiguous :: value(:)
    include 'put.inc'
    call put_texts(self%handle, key, len(value), shape(value), value, plain, if_absent, ttl_ms, timeout_ms, stat, errmsg)
  end subroutine

  subroutine put_i4_2(self, key, value, plain, if_absent, ttl_ms, timeout_ms, stat, errmsg)
    integer(int32), intent(in), contiguous, target :: value(:, :)
    character(*), parameter :: type = 'i4'
    include 'put_array.inc'
  end subroutine

  subroutine put_i8_2(self, key, value, plain, if_absent, ttl_ms, timeout_ms, stat, errmsg)
    integer(int64), intent(in), contiguous, target :: value(:, :)
    character(*), parameter :: type = 'i8'
    include 'put_array.inc'
  end subroutine

  subroutine put_f4_2(self, key, value, plain, if_absent, ttl_ms, timeout_ms, stat, errmsg)
    real(real32), intent(in), contiguous, target :: value(:, :)
    character(*), parameter :: type = 'f4'
    include 'put_array.inc'
  end subroutine

  subroutine put_f8_2(self, key, value, plain, if_absent, ttl_ms, timeout_ms, stat, errmsg)
    real(real64), intent(in), contiguous, target :: value(:, :)
    character(*), parameter :: type = 'f8'
    include 'put_array.inc'
  end subroutine

  subroutine put_text_2(self, key, value, plain, if_absent, ttl_ms, timeout_ms, stat, errmsg)
    character(*), intent(in), contiguous :: value(:, :)
    include 'put.inc'
    call put_texts(self%handle, key, len(value), shape(value), value, plain, if_absent, ttl_ms, timeout_ms, stat, errmsg)
  end subroutine

  subroutine put_i4_3(self, key, value, plain, if_absent, ttl_ms, timeout_ms, stat, errmsg)
    integer(int32), intent(in), contiguous, target :: value(:, :, :)
    character(*), parameter :: type = 'i4'
    include 'put_array.inc'
  end subroutine

  subroutine put_i8_3(self, key, value, plain, if_absent, ttl_ms, timeout_ms, stat, errmsg)
    integer(int64), intent(in), contiguous, target :: value(:, :, :)
    character(*), parameter :: type = 'i8'
    include 'put_array.inc'
  end subroutine

  subroutine put_f4_3(self, key, value, plain, if_absent, ttl_ms, timeout_ms, stat, errmsg)
    real(real32), intent(in), contiguous, target :: value(:, :, :)
    character(*), parameter :: type = 'f4'
    include 'put_array.inc'
  end subroutine

  subroutine put_f8_3(self, key, value, plain, if_absent, ttl_ms, timeout_ms, stat, errmsg)
    real(real64), intent(in), contiguous, target :: value(:, :, :)
    character(*), parameter :: type = 'f8'
    include 'put_array.inc'
  end subroutine

  subroutine put_text_3(self, key, value, plain, if_absent, ttl_ms, timeout_ms, stat, errmsg)
    character(*), intent(in), contiguous :: value(:, :, :)
    include 'put.inc'
    call put_texts(self%handle, key, len(value), shape(value), value, plain, if_absent, ttl_ms, timeout_ms, stat, errmsg)
  end subroutine

  subroutine get_i4_1(self, key, value, plain, wait_ms, timeout_ms, stat, errmsg)
    integer(int32), intent(inout), contiguous, target :: value(:)
    character(*), parameter :: type = 'i4'
    include 'get_array.inc'
  end subroutine

  subroutine get_i8_1(self, key, value, plain, wait_ms, timeout_ms, stat, errmsg)
    integer(int64), intent(inout), contiguous, target :: value(:)
    character(*), parameter :: type = 'i8'
    include 'get_array.inc'
  end subroutine

  subroutine get_f4_1(self, key, value, plain, wait_ms, timeout_ms, stat, errmsg)
    real(real32), intent(inout), contiguous, target :: value(:)
    character(*), parameter :: type = 'f4'
    include 'get_array.inc'
  end subroutine

  subroutine get_f8_1(self, key, value, plain, wait_ms, timeout_ms, stat, errmsg)
    real(real64), intent(inout), contiguous, target :: value(:)
    character(*), parameter :: type = 'f8'
    include 'get_array.inc'
  end subroutine

  subroutine get_text_1(self, key, value, plain, wait_ms, timeout_ms, stat, errmsg)
    character(*), intent(inout), contiguous :: value(:)
    include 'get.inc'
    call get_texts(self%handle, key, len(value), shape(value), value, plain, wait_ms, timeout_ms, stat, errmsg)
  end subroutine

  subroutine get_i4_2(self, key, value, plain, wait_ms, timeout_ms, stat, errmsg)
    integer(int32), intent(inout), contiguous, target :: value(:, :)
    character(*), parameter :: type = 'i4'
    include 'get_array.inc'
  end subroutine

  subroutine get_i8_2(self, key, value, plain, wait_ms, timeout_ms, stat, errmsg)
    integer(int64), intent(inout), contiguous, target :: value(:, :)
    character(*), parameter :: type = 'i8'
    include 'get_array.inc'
  end subroutine

  subroutine get_f4_2(self, key, value, plain, wait_ms, timeout_ms, stat, errmsg)
    real(real32), intent(inout), contiguous, target :: value(:, :)
    character(*), parameter :: type = 'f4'
    include 'get_array.inc'
  end subroutine

  subroutine get_f8_2(self, key, value, plain, wait_ms, timeout_ms, stat, errmsg)
    real(real64), intent(inout), contiguous, target :: value(:, :)
    character(*), parameter :: type = 'f8'
    include 'get_array.inc'
  end subroutine

  subroutine get_text_2(self, key, value, plain, wait_ms, timeout_ms, stat, errmsg)
    character(*), intent(inout), contiguous :: value(:, :)
    include 'get.inc'
    call get_texts(self%handle, key, len(value), shape(value), value, plain, wait_ms, timeout_ms, stat, errmsg)
  end subroutine

  subroutine get_i4_3(self, key, value, plain, wait_ms, timeout_ms, stat, errmsg)
    integer(int32), intent(inout), contiguous, target :: value(:, :, :)
    character(*), parameter :: type = 'i4'
    include 'get_array.inc'
  end subroutine

  subroutine get_i8_3(self, key, value, plain, wait_ms, timeout_ms, stat, errmsg)
    integer(int64), intent(inout), contiguous, target :: value(:, :, :)
    character(*), parameter :: type = 'i8'
    include 'get_array.inc'
  end subroutine

  subroutine get_f4_3(self, key, value, plain, wait_ms, timeout_ms, stat, errmsg)
    real(real32), intent(inout), contiguous, target :: value(:, :, :)
    character(*), parameter :: type = 'f4'
    include 'get_array.inc'
  end subroutine

  subroutine get_f8_3(self, key, value, plain, wait_ms, timeout_ms, stat, errmsg)
    real(real64), intent(inout), contiguous, target :: value(:, :, :)
    character(*), parameter :: type = 'f8'
    include 'get_array.inc'
  end subroutine

  subroutine get_text_3(self, key, value, plain, wait_ms, timeout_ms, stat, errmsg)
    character(*), intent(inout), contiguous :: value(:, :, :)
    include 'get.inc'
    call get_texts(self%handle, key, len(value), shape(value), value, plain, wait_ms, timeout_ms, stat, errmsg)
  end subroutine
end module tidepool
