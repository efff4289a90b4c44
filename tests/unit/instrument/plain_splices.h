// Every form of records in plain slots, spliced.
#pragma once

#include "tests/unit/instrument/fixture.h"

namespace xtrace::instrument::test {

// Plans for plain slots: which blocks are full, and whether block records are short.
struct PlainConfig {
  ProbeKind probe;
  uint32_t one_in;
  bool full, table, is_short;
  bool some = false;   // all blocks full but one, which is seldom executed
  uint32_t clock_gap = 0;
  bool sectors = false;
};
inline const std::vector<PlainConfig> plain_configs = {
    {ProbeKind::count, 1, false, false, false}, {ProbeKind::block, 1, false, false, false},
    {ProbeKind::block, 1, false, false, true},  {ProbeKind::block, 1, true, false, true},
    {ProbeKind::block, 4, true, true, true},    {ProbeKind::inst, 1, false, false, false},
    {ProbeKind::inst, 1, true, false, false},   {ProbeKind::inst, 4, true, true, false},
    {ProbeKind::inst, 1, false, false, true},   {ProbeKind::inst, 1, true, false, true},
    {ProbeKind::block, 1, true, false, true, true}, {ProbeKind::mem, 1, false, false, false},
    {ProbeKind::mem, 1, true, false, false},    {ProbeKind::mem, 4, false, true, false},
    {ProbeKind::inst, 1, true, false, true, false, 32}, {ProbeKind::inst, 1, true, false, false, false, 8},
    {ProbeKind::inst, 1, false, false, true, false, 32}, {ProbeKind::inst, 4, true, true, true, true, 1000},
    {ProbeKind::inst, 1, true, false, true, false, 32, true}, {ProbeKind::inst, 4, true, true, false, true, 0, true},
};

inline Result<Spliced> splice_plain(const Kernel& k, const PlainConfig& c, uint64_t slots, LaunchShape shape) {
  if (c.probe == ProbeKind::mem && c.full) shape.low_words_tell = true;
  XT_TRY(const Splicer splicer, Splicer::create(k.cubin, k.name, shape));
  wire::SlotLayout l = some_layout(shape, c.table, c.probe == ProbeKind::count);
  l.slots = slots;
  if (c.probe == ProbeKind::mem) l.lead_bytes = wire::mem_line;
  if (c.is_short) {
    l.index_bits = splicer.index_bits();
    l.short_records = c.probe == ProbeKind::block;
    if (l.short_records) l.lead_bytes = sizeof(wire::SlotHead);
  }
  l.whole_sectors = c.sectors && splicer.can_fill_sectors(c.one_in > 1);
  if (l.whole_sectors) l.lead_bytes = wire::sector_bytes;
  Plan plan = plan_of(c.probe, c.one_in);
  plan.clock_gap = c.clock_gap;
  if (c.full) {   // and everything is executed as often, the entry excepted: chains everywhere
    plan.full_blocks.assign(splicer.blocks().size(), true);
    plan.executions.assign(splicer.blocks().size(), 8);
    if (c.some) {
      plan.full_blocks.back() = false;
      plan.executions.assign(splicer.blocks().size(), 100);
      plan.executions.back() = 1;
    }
    if (c.table) plan.executions[0] = 1;   // else block 1 always follows: its record is stored with the head
  }
  return splicer.splice(plan, l);
}

}  // namespace xtrace::instrument::test
