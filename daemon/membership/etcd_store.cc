#include "daemon/membership/etcd_store.h"

#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "daemon/membership/etcd_session.h"
#include "proto/base/log.h"
#include "proto/cluster_file/random.h"

namespace tidepool::daemon {
namespace {

constexpr std::string_view kPartsMagic = "tidepool-cluster-state-parts ";
// As the file of an embedded coordinator.
constexpr std::size_t kEtcdStateBytesMax = 128 << 20;
constexpr std::uint64_t kRemoveMs = 1000;
constexpr auto kAgain = std::chrono::milliseconds(20);

// "tidepool-cluster-state-parts 12 3 <uuid>\n": three parts of epoch 12, of that save.
std::string HeadOf(Epoch epoch, std::size_t parts, const std::string& save) {
  return std::string(kPartsMagic) + std::to_string(epoch.value()) + " " + std::to_string(parts) +
         " " + save + "\n";
}

// As texts in the order of the numbers.
std::string Padded(std::uint64_t number) {
  char text[21];
  std::snprintf(text, sizeof text, "%020llu", static_cast<unsigned long long>(number));
  return text;
}

}  // namespace

EtcdStore::EtcdStore(etcd::Client* etcd, const std::string& prefix, std::int64_t election,
                     std::uint32_t lease_ms, std::size_t part_bytes)
    : etcd_(*etcd),
      prefix_(prefix),
      key_(prefix + "/state"),
      election_(election),
      lease_ms_(lease_ms),
      part_bytes_(part_bytes) {}

std::string EtcdStore::Describe() const { return etcd_.Describe() + ", key '" + key_ + "'"; }

std::string EtcdStore::PartKey(Epoch epoch, const std::string& save, std::size_t part) const {
  return key_ + "/" + Padded(epoch.value()) + "/" + save + "/" + std::to_string(part);
}

Result<std::string> EtcdStore::ReadText(const etcd::Entry& head, Deadline deadline) {
  const std::string& text = head.value;
  if (text.compare(0, kPartsMagic.size(), kPartsMagic) != 0) return text;
  unsigned long long epoch = 0;
  unsigned long long parts = 0;
  char save[37] = "";
  const int read =
      std::sscanf(text.c_str() + kPartsMagic.size(), "%llu %llu %36s", &epoch, &parts, save);
  if (read != 3 || parts == 0 || parts > kEtcdStateBytesMax) {
    return Status(StatusCode::kDataLoss, "the key '" + key_ + "' in etcd is damaged",
                  "restore etcd from a snapshot");
  }
  std::string whole;
  for (std::size_t i = 0; i < parts; ++i) {
    auto part = etcd_.Get(PartKey(Epoch(epoch), save, i), deadline);
    if (!part.ok()) return part.status();
    if (!part->has_value() || whole.size() + (*part)->value.size() > kEtcdStateBytesMax) {
      return Status(StatusCode::kAborted, "part " + std::to_string(i) + " of the state is gone");
    }
    whole += (*part)->value;
  }
  return whole;
}

Result<std::optional<ClusterState>> EtcdStore::Load() {
  const Deadline deadline = Deadline::AfterMs(EtcdCallMs(lease_ms_));
  while (true) {
    auto head = etcd_.Get(key_, deadline);
    if (!head.ok()) return head.status();
    if (!head->has_value()) {
      revision_ = 0;
      saved_ = Epoch(0);
      return std::optional<ClusterState>();
    }
    auto text = ReadText(**head, deadline);
    // A newer state has been written since, and the parts of this one removed.
    if (text.code() == StatusCode::kAborted && !deadline.Passed()) {
      std::this_thread::sleep_for(kAgain);
      continue;
    }
    if (text.code() == StatusCode::kAborted) {
      return Status(StatusCode::kDataLoss,
                    "the cluster's state in " + Describe() + " lacks some of its parts",
                    "restore etcd from a snapshot");
    }
    if (!text.ok()) return text.status();
    auto state = DecodeState(*text, Describe());
    if (!state.ok()) return state.status();
    revision_ = (*head)->mod_revision;
    saved_ = state->map.epoch;
    has_parts_ = text->size() != (*head)->value.size();
    return std::optional<ClusterState>(*std::move(state));
  }
}

Result<std::string> EtcdStore::WriteParts(const std::string& text, Epoch epoch, Deadline deadline) {
  const std::string save = cluster_file::MakeUuid();
  for (std::size_t i = 0; i * part_bytes_ < text.size(); ++i) {
    etcdserverpb::TxnRequest request;
    *request.add_compare() = etcd::KeyWasCreatedAt(CoordinatorKey(prefix_), election_);
    *request.add_success() =
        etcd::Put(PartKey(epoch, save, i), text.substr(i * part_bytes_, part_bytes_));
    *request.add_failure() = etcd::Read(CoordinatorKey(prefix_));
    const auto answer = etcd_.Txn(request, deadline);
    // Nothing names the part yet, so nothing has happened.
    if (answer.code() == StatusCode::kUnknown) {
      return Status(StatusCode::kUnavailable, std::string(answer.status().what()),
                    std::string(answer.status().remedy()));
    }
    if (!answer.ok()) return answer.status();
    if (!answer->succeeded()) return Refused(*answer);
  }
  return HeadOf(epoch, (text.size() + part_bytes_ - 1) / part_bytes_, save);
}

// What is not named any more. That it fails does no harm: the next save does it again.
void EtcdStore::RemovePartsBefore(Epoch epoch) {
  etcdserverpb::TxnRequest request;
  *request.add_compare() = etcd::KeyWasCreatedAt(CoordinatorKey(prefix_), election_);
  *request.add_success() = etcd::DeleteRange(key_ + "/", key_ + "/" + Padded(epoch.value()) + "/");
  const auto answer = etcd_.Txn(request, Deadline::AfterMs(kRemoveMs));
  if (!answer.ok()) log::Warn("old parts of the state stay: " + answer.status().ToString());
}

Status EtcdStore::Unknown(const Status& why) {
  must_reload_ = true;
  return Status(StatusCode::kUnknown,
                "the cluster's state may be saved or not: " + std::string(why.what()),
                std::string(why.remedy()));
}

// Why etcd did not carry out what `answer` is of. `head` is what was to be saved; `is_repeated`: as
// etcd::Client::Txn says.
Status EtcdStore::Refused(const etcdserverpb::TxnResponse& answer, const std::string& head,
                          bool is_repeated, bool requires_dead) {
  const auto elected = etcd::EntryOf(answer, 0);
  const auto state = etcd::EntryOf(answer, 1);
  if (!head.empty() && state.has_value() && state->value == head) {
    // An earlier try of the same call has done it, and its answer was lost. Or a successor has
    // saved the very same text, which makes it no less true that it is saved: a head of parts has
    // no like.
    revision_ = state->mod_revision;
    return OkStatus();
  }
  if (!elected.has_value() || elected->create_revision != election_) {
    const std::int64_t there = state.has_value() ? state->mod_revision : 0;
    if (is_repeated && there != revision_) {
      // The earlier try may have done it before the election ended, and the next coordinator gone
      // on.
      return Unknown(
          Status(StatusCode::kUnknown,
                 "this node is not the coordinator any more, and another one has saved"));
    }
    return Status(StatusCode::kUnavailable, "this node is not the coordinator any more",
                  "ask again: another node is, or will be");
  }
  // Only a process that was to be gone can have failed the transaction.
  if (requires_dead && state.has_value() && state->mod_revision == revision_) {
    return Status(StatusCode::kUnavailable, "a process that was to be replaced has registered");
  }
  must_reload_ = true;
  return Status(StatusCode::kAborted, "the cluster's state in " + Describe() +
                                          " is another one than this coordinator has seen");
}

Status EtcdStore::Save(const ClusterState& next, Epoch previous) {
  return SaveIfDead(next, previous, {});
}

// Compares the keys of `dead` as they are now. A process that registers again changes its key, and
// the transaction fails.
Status EtcdStore::RequireDead(const std::vector<DeadProcess>& dead, Deadline deadline,
                              etcdserverpb::TxnRequest* request) {
  for (const DeadProcess& process : dead) {
    const std::string key = NodeKey(prefix_, process.uuid);
    const auto entry = etcd_.Get(key, deadline);
    if (!entry.ok()) return entry.status();
    if (entry->has_value() && IncarnationOf(**entry) == process.incarnation) {
      return Status(StatusCode::kUnavailable,
                    "the process of node " + process.uuid + " that is to be replaced is alive");
    }
    *request->add_compare() =
        etcd::KeyWasChangedAt(key, entry->has_value() ? (*entry)->mod_revision : 0);
  }
  return OkStatus();
}

Status EtcdStore::SaveIfDead(const ClusterState& next, Epoch previous,
                             const std::vector<DeadProcess>& dead) {
  if (must_reload_ || election_ == 0) {
    return Status(StatusCode::kUnavailable, "this node is not the coordinator, or not yet again",
                  "ask again in a moment");
  }
  if (previous != saved_) {
    return Status(StatusCode::kAborted, "the cluster's state in " + Describe() + " has epoch " +
                                            std::to_string(saved_.value()) + ", not " +
                                            std::to_string(previous.value()));
  }
  const Deadline deadline = Deadline::AfterMs(EtcdCallMs(lease_ms_));
  std::string head = EncodeState(next);
  const bool in_parts = head.size() > part_bytes_;
  if (in_parts) {
    auto named = WriteParts(head, next.map.epoch, deadline);
    if (!named.ok()) return named.status();
    head = *std::move(named);
  }
  etcdserverpb::TxnRequest request;
  *request.add_compare() = etcd::KeyWasCreatedAt(CoordinatorKey(prefix_), election_);
  *request.add_compare() = etcd::KeyWasChangedAt(key_, revision_);
  TP_RETURN_IF_ERROR(RequireDead(dead, deadline, &request));
  *request.add_success() = etcd::Put(key_, head);
  *request.add_failure() = etcd::Read(CoordinatorKey(prefix_));
  *request.add_failure() = etcd::Read(key_);
  bool is_repeated = false;
  const auto answer = etcd_.Txn(request, deadline, &is_repeated);
  if (answer.code() == StatusCode::kUnknown) return Unknown(answer.status());
  if (!answer.ok()) return answer.status();
  if (answer->succeeded()) {
    revision_ = answer->header().revision();
  } else {
    TP_RETURN_IF_ERROR(Refused(*answer, head, is_repeated, !dead.empty()));
  }
  saved_ = next.map.epoch;
  if (in_parts || has_parts_) RemovePartsBefore(next.map.epoch);
  has_parts_ = in_parts;
  return OkStatus();
}

Status EtcdStore::Retire() {
  etcdserverpb::TxnRequest request;
  *request.add_compare() = etcd::KeyWasCreatedAt(CoordinatorKey(prefix_), election_);
  *request.add_success() = etcd::Delete(key_);
  *request.add_success() = etcd::DeleteRange(key_ + "/", EndOfPrefix(key_ + "/"));
  *request.add_failure() = etcd::Read(CoordinatorKey(prefix_));
  const auto answer = etcd_.Txn(request, Deadline::AfterMs(EtcdCallMs(lease_ms_)));
  if (!answer.ok()) return answer.status();
  if (!answer->succeeded()) return Refused(*answer);
  revision_ = 0;
  saved_ = Epoch(0);
  has_parts_ = false;
  return OkStatus();
}

Result<bool> EtcdStore::KnowsAlive(const placement::Node& node) {
  const auto key =
      etcd_.Get(NodeKey(prefix_, node.uuid), Deadline::AfterMs(EtcdCallMs(lease_ms_) / 2));
  if (!key.ok()) return key.status();
  return key->has_value() && IncarnationOf(**key) == node.incarnation;
}

}  // namespace tidepool::daemon
