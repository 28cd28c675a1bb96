#include "client/engine/pack_pieces.h"

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
          piece->operation.sequence = whole->sequence;
        }
        piece->pack.Add(header, word, key, value);
        piece->places.push_back(place++);
      });
  left = pieces.size();
  for (const auto& piece : pieces) {
    Operation& operation = piece->operation;
    operation.FillPack(operation.queue, piece->pack, piece->pack.bytes().data());
  }
}

}  // namespace tidepool::internal
