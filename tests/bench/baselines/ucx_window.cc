#include "tests/bench/baselines/ucx_window.h"

#include <mpi.h>
#include <sched.h>
#include <sys/mman.h>

#include <string>
#include <utility>

#include "tests/bench/baselines/ranks.h"

namespace tidepool::baselines {
namespace {

// So many polls in vain before the CPU is given away: with a CPU for each rank it never is.
constexpr unsigned kIdlePolls = 2'000;

void Require(ucs_status_t status, const char* what) {
  if (status != UCS_OK) Fail(std::string("UCX: ") + what + ": " + ucs_status_string(status));
}

// Everybody's bytes, in the order of ranks.
std::vector<std::string> Exchange(const void* own, std::size_t bytes) {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int own_bytes = static_cast<int>(bytes);
  std::vector<int> sizes(static_cast<std::size_t>(ranks));
  MPI_Allgather(&own_bytes, 1, MPI_INT, sizes.data(), 1, MPI_INT, MPI_COMM_WORLD);
  std::vector<int> starts(sizes.size());
  for (std::size_t i = 1; i < sizes.size(); ++i) starts[i] = starts[i - 1] + sizes[i - 1];
  std::string all(static_cast<std::size_t>(starts.back() + sizes.back()), '\0');
  MPI_Allgatherv(own, own_bytes, MPI_BYTE, all.data(), sizes.data(), starts.data(), MPI_BYTE,
                 MPI_COMM_WORLD);
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    parts.push_back(
        all.substr(static_cast<std::size_t>(starts[i]), static_cast<std::size_t>(sizes[i])));
  }
  return parts;
}

}  // namespace

UcxWindow::UcxWindow(std::size_t bytes) : bytes_(bytes) {
  StartWorker();
  void* const memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) Fail("no memory for the window");
  local_ = static_cast<char*>(memory);
  ucp_mem_map_params_t map{};
  map.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  map.address = local_;
  map.length = bytes_;
  Require(ucp_mem_map(context_, &map, &memory_), "memory");
  ConnectAll();
  Barrier();
}

UcxWindow::~UcxWindow() {
  Barrier();
  for (const Peer& peer : peers_) {
    ucp_rkey_destroy(peer.key);
    ucp_request_param_t flags{};
    Wait(ucp_ep_close_nbx(peer.endpoint, &flags));
  }
  Barrier();  // Whoever closes later needs the others' progress.
  ucp_mem_unmap(context_, memory_);
  ucp_worker_destroy(worker_);
  ucp_cleanup(context_);
  munmap(local_, bytes_);
}

void UcxWindow::StartWorker() {
  ucp_config_t* config = nullptr;
  Require(ucp_config_read(nullptr, nullptr, &config), "configuration");
  // A rank's own memory is reached within the process, as it would be between machines.
  for (const auto& [name, value] : {std::pair{"TLS", "tcp,self"}, std::pair{"NET_DEVICES", "lo"}}) {
    Require(ucp_config_modify(config, name, value), name);
  }
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_RMA | UCP_FEATURE_AMO64;
  Require(ucp_init(&params, config, &context_), "start");
  ucp_config_release(config);
  ucp_worker_params_t worker{};
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SINGLE;
  Require(ucp_worker_create(context_, &worker, &worker_), "worker");
}

void UcxWindow::ConnectAll() {
  ucp_address_t* address = nullptr;
  std::size_t address_bytes = 0;
  Require(ucp_worker_get_address(worker_, &address, &address_bytes), "address");
  const std::vector<std::string> addresses = Exchange(address, address_bytes);
  ucp_worker_release_address(worker_, address);
  void* key = nullptr;
  std::size_t key_bytes = 0;
  Require(ucp_rkey_pack(context_, memory_, &key, &key_bytes), "key");
  const std::vector<std::string> keys = Exchange(key, key_bytes);
  ucp_rkey_buffer_release(key);
  const auto base = reinterpret_cast<std::uint64_t>(local_);
  std::vector<std::uint64_t> bases(addresses.size());
  MPI_Allgather(&base, 1, MPI_UINT64_T, bases.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD);
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    Peer peer;
    peer.base = bases[i];
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = reinterpret_cast<const ucp_address_t*>(addresses[i].data());
    Require(ucp_ep_create(worker_, &params, &peer.endpoint), "endpoint");
    Require(ucp_ep_rkey_unpack(peer.endpoint, keys[i].data(), &peer.key), "another's key");
    peers_.push_back(peer);
  }
}

void UcxWindow::Progress() {
  if (ucp_worker_progress(worker_) != 0) {
    idle_ = 0;
  } else if (++idle_ >= kIdlePolls) {
    idle_ = 0;
    sched_yield();
  }
}

void UcxWindow::Wait(ucs_status_ptr_t request) {
  if (request == nullptr) return;
  if (UCS_PTR_IS_ERR(request)) Require(UCS_PTR_STATUS(request), "a call");
  ucs_status_t status = UCS_INPROGRESS;
  while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) Progress();
  ucp_request_free(request);
  Require(status, "a call");
}

void UcxWindow::Flush(const Peer& peer) {
  ucp_request_param_t nothing{};
  Wait(ucp_ep_flush_nbx(peer.endpoint, &nothing));
}

void UcxWindow::Get(Place from, void* to, std::size_t bytes) {
  ++calls_;
  const Peer& peer = peers_[static_cast<std::size_t>(from.rank)];
  ucp_request_param_t nothing{};
  Wait(ucp_get_nbx(peer.endpoint, to, bytes, peer.base + from.at, peer.key, &nothing));
}

void UcxWindow::Put(Place to, const void* from, std::size_t bytes) {
  ++calls_;
  const Peer& peer = peers_[static_cast<std::size_t>(to.rank)];
  ucp_request_param_t nothing{};
  Wait(ucp_put_nbx(peer.endpoint, from, bytes, peer.base + to.at, peer.key, &nothing));
  Flush(peer);
}

std::uint64_t UcxWindow::Atomic(ucp_atomic_op_t op, Place at, std::uint64_t operand,
                                std::uint64_t reply) {
  ++calls_;
  const Peer& peer = peers_[static_cast<std::size_t>(at.rank)];
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
  param.datatype = ucp_dt_make_contig(sizeof operand);
  param.reply_buffer = &reply;
  Wait(ucp_atomic_op_nbx(peer.endpoint, op, &operand, 1, peer.base + at.at, peer.key, &param));
  return reply;
}

// Of a swap UCX takes what is expected as the operand, and what is desired where the answer goes.
std::uint64_t UcxWindow::CompareAndSwap(Place at, std::uint64_t expected, std::uint64_t desired) {
  return Atomic(UCP_ATOMIC_OP_CSWAP, at, expected, desired);
}
std::uint64_t UcxWindow::FetchAdd(Place at, std::uint64_t by) {
  return Atomic(UCP_ATOMIC_OP_ADD, at, by, 0);
}
std::uint64_t UcxWindow::FetchOr(Place at, std::uint64_t bits) {
  return Atomic(UCP_ATOMIC_OP_OR, at, bits, 0);
}

void UcxWindow::Barrier() {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int done = 0; done == 0;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    Progress();
  }
}

void UcxWindow::BareGets(const std::vector<Place>& places, void* to, std::size_t bytes) {
  ucp_request_param_t nothing{};
  for (const Place& place : places) {
    const Peer& peer = peers_[static_cast<std::size_t>(place.rank)];
    Wait(ucp_get_nbx(peer.endpoint, to, bytes, peer.base + place.at, peer.key, &nothing));
  }
  calls_ += places.size();
}

void UcxWindow::BareInserts(const std::vector<Place>& places, const void* from, std::size_t bytes) {
  ucp_request_param_t nothing{};
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
  param.datatype = ucp_dt_make_contig(sizeof(std::uint64_t));
  for (const Place& place : places) {
    const Peer& peer = peers_[static_cast<std::size_t>(place.rank)];
    const std::uint64_t at = peer.base + place.at;
    for (std::uint64_t expected = 0; expected < 2; ++expected) {
      std::uint64_t reply = expected + 1;
      param.reply_buffer = &reply;
      Wait(ucp_atomic_op_nbx(peer.endpoint, UCP_ATOMIC_OP_CSWAP, &expected, 1, at, peer.key,
                             &param));
      if (expected == 1) break;
      Wait(ucp_put_nbx(peer.endpoint, from, bytes, at + 8, peer.key, &nothing));
      Wait(ucp_ep_flush_nbx(peer.endpoint, &nothing));
    }
  }
  calls_ += 3 * places.size();
}

}  // namespace tidepool::baselines
