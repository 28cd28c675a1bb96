#include "proto/base/wrong_kind.h"

#include <string>

namespace tidepool {
namespace {

std::string VerbsOf(Kind kind) {
  switch (kind) {
    case Kind::kHash:
      return "hash namespaces: kvctl put, get, keys, dump";
    case Kind::kOrdered:
      return "ordered namespaces: kvctl put, get, scan, dump";
    case Kind::kQueue:
    case Kind::kPriority:
      return "queues: kvctl push, pop, peek";
    case Kind::kBloom:
      return "filters: kvctl bloom add, bloom has";
    case Kind::kUnspecified:
    case Kind::kArray:
      break;
  }
  return "see: kvctl namespace list";
}

// "hash or ordered".
std::string NamesOf(KindMask kinds) {
  std::string names;
  for (int i = 1; i < kKindCount; ++i) {
    const Kind kind = static_cast<Kind>(i);
    if ((kinds & MaskOf(kind)) == 0) continue;
    if (!names.empty()) names += " or ";
    names += KindName(kind);
  }
  return names;
}

}  // namespace

Status WrongKind(std::string_view space, Kind is, std::string_view doing, KindMask needs) {
  return Status(StatusCode::kInvalidArgument,
                "namespace '" + std::string(space) + "' is of kind " + std::string(KindName(is)) +
                    "; " + std::string(doing) + " needs " + NamesOf(needs),
                VerbsOf(is));
}

}  // namespace tidepool
