#include "client/pack_pieces.h"

namespace tidepool::internal {

PackPieces::PackPieces(Operation* whole, const std::function<PartitionQueue*(Bytes)>& route) {
  std::uint16_t place = 0;
  wire::VisitOperations(
      {whole->value, whole->value_bytes}, whole->pack_uniform, whole->pack_count,
      [&](const wire::OperationHeader& header, std::uint64_t word, Bytes key, Bytes value) {
        PartitionQueue* queue = route(key);
        PackPiece* piece = nullptr;
        for (const auto& one : pieces) {
          if (one->operation.queue == queue) piece = one.get();
        }
        if (piece == nullptr) {
          piece = pieces.emplace_back(std::make_unique<PackPiece>()).get();
          piece->whole = whole;
          piece->operation.piece_of = piece;
          piece->operation.call = whole->call;
          piece->operation.queue = queue;
          piece->operation.opcode = whole->opcode;
          piece->operation.sequence = whole->sequence;
        }
        piece->pack.Add(header, word, key, value);
        piece->places.push_back(place++);
      });
  left = pieces.size();
  for (const auto& piece : pieces) {
    Operation& operation = piece->operation;
    operation.value = piece->pack.bytes().data();
    operation.value_bytes = static_cast<std::uint32_t>(piece->pack.bytes().size());
    operation.pack_count = static_cast<std::uint16_t>(piece->pack.count());
    operation.pack_uniform = piece->pack.uniform();
  }
}

}  // namespace tidepool::internal
