#include "instrument/point_layout.h"

#include <algorithm>

namespace xtrace::instrument {
namespace {

using Kind = wire::Value::Kind;

constexpr uint32_t header_words = 2;   // word0, mask

bool may_define(const sass::Effects& fx, const wire::Value& v) {
  if (!fx.known) return true;
  switch (v.kind) {
    case Kind::vector: return fx.def.gpr.test(v.index);
    case Kind::uniform: return fx.def.ur.test(v.index);
    case Kind::lanes: return v.index < 7 && (fx.def.pred >> v.index & 1);
    default: return true;
  }
}

// What `words` words take that are stored together: by one, by two, or by four at once.
uint32_t room_of(size_t words) { return words <= 2 ? static_cast<uint32_t>(words) : static_cast<uint32_t>(align_up(words, point_words_at_once)); }

// Lays out the record of points[first], in which those of `joined` have their values: words first, then columns. Records are whole
// chunks, or whole sectors where some have columns (`grain`).
void lay_out_record(std::vector<PointPlan>& points, size_t first, const std::vector<size_t>& joined, uint32_t grain) {
  std::vector<size_t> all{first};
  all.insert(all.end(), joined.begin(), joined.end());
  uint32_t at = 0;   // in words
  for (size_t k : all) {
    std::vector<wire::Value*> words;
    for (wire::Value& v : points[k].point.values)
      if (!v.is_column() && v.is_recorded()) words.push_back(&v);
    const uint32_t head = k == first ? header_words : 0, room = room_of(head + words.size());
    if (room == 0) continue;
    at = static_cast<uint32_t>(align_up(at, std::min(room, point_words_at_once)));
    for (size_t w = 0; w < words.size(); ++w) words[w]->place = static_cast<uint32_t>((at + head + w) * sizeof(uint32_t));
    at += room;
  }
  auto bytes = static_cast<uint32_t>(at * sizeof(uint32_t));
  for (size_t k : all) {
    for (wire::Value& v : points[k].point.values) {
      if (!v.is_column() || !v.is_recorded()) continue;
      v.place = static_cast<uint32_t>(align_up(bytes, grain));
      bytes = v.place + wire::column_bytes;
    }
  }
  points[first].point.record_bytes = static_cast<uint32_t>(align_up(bytes, grain));
}

}  // namespace

bool has_columns(const std::vector<PointPlan>& points) {
  return std::any_of(points.begin(), points.end(), [](const PointPlan& p) {
    return std::any_of(p.point.values.begin(), p.point.values.end(), [](const wire::Value& v) { return v.is_column(); });
  });
}

void leave_out_told(std::vector<PointPlan>& points, const PointContext& c) {
  std::vector<wire::Value> told;   // in front of `next`
  InstIndex next = 0;
  for (size_t k = 0; k < points.size(); ++k) {
    PointPlan& p = points[k];
    const ProbeBlock& block = c.blocks.blocks[p.point.block];
    if (!p.present || (p.point.after && p.at == block.last())) continue;   // behind the block's last instruction others come out
    const InstIndex at = p.at + p.point.after;
    if (next < block.first || next > block.last()) {
      told.clear();
      next = at;
    }
    for (; next < at; ++next)
      std::erase_if(told, [&](const wire::Value& v) { return may_define(c.code.insts[next].fx, v); });
    std::vector<wire::Value> own;
    for (wire::Value& v : p.point.values) {
      if (std::any_of(told.begin(), told.end(), [&](const wire::Value& t) { return t.same_register(v); })) v.place = wire::Value::same;
      else own.push_back(v);
    }
    p.point.implied = own.empty() && !p.point.values.empty();
    told.insert(told.end(), own.begin(), own.end());   // clocks are no registers: nobody finds them
  }
}

void lay_out(std::vector<PointPlan>& points, const PointContext& c, bool apart) {
  const uint32_t grain = has_columns(points) ? wire::sector_bytes : wire::chunk_bytes;
  for (size_t first = 0; first < points.size(); ++first) {
    const PointPlan& p = points[first];
    if (p.point.joined || p.point.implied) continue;
    std::vector<size_t> joined;
    const InstIndex last = c.blocks.blocks[p.point.block].last();
    const auto belongs = [&](const PointPlan& q) { return q.point.block == p.point.block && !(q.point.after && q.at == last); };
    for (size_t k = first + 1; k < points.size() && !apart && p.present && belongs(p) && belongs(points[k]); ++k) {
      if (!points[k].present || points[k].point.implied) continue;
      points[k].point.joined = true;
      joined.push_back(k);
    }
    lay_out_record(points, first, joined, grain);
  }
}

}  // namespace xtrace::instrument
