// One file per probe in this folder: what it inserts where. probe_bodies() is the table of them; the public names and
// summaries are in instrument/probe.h.
#pragma once

#include <span>

#include "instrument/blocks.h"
#include "instrument/instrument.h"
#include "instrument/relocate.h"
#include "instrument/scratch.h"

namespace xtrace::instrument {

// What a probe's inserter works with. It adds sequences to `out` and takes registers from `scratch`, nothing else.
struct ProbeContext {
  const Code& code;
  const Blocks& blocks;
  const Plan& plan;
  const wire::SlotLayout& layout;
  Scratch& scratch;
  Insertions& out;
  wire::AddressMap& map;   // sites; record_bytes and clocks of blocks
};

struct ProbeBody {
  ProbeKind kind;
  Status (*insert)(ProbeContext&);
  uint32_t (*record_bytes)(uint32_t instructions);   // of one execution of a block
};
std::span<const ProbeBody> probe_bodies();

Status insert_count(ProbeContext& c);
Status insert_block(ProbeContext& c);
Status insert_inst(ProbeContext& c);
Status insert_pair(ProbeContext& c);

uint32_t block_record_bytes(uint32_t instructions);
uint32_t inst_record_bytes(uint32_t instructions);

// --- shared pieces

// Moves the cursor by `bytes`: the part that may stand early (bump_cursor), and the part that changes where the next
// record goes (bump_address), after the last store that uses the old value. `stall`: cycles after bump_address.
void bump_cursor(ProbeContext& c, Sequence& seq, uint32_t bytes);
void bump_address(ProbeContext& c, Sequence& seq, uint32_t bytes, unsigned stall);
// Cycles that bump_address must leave so that the next record's store, at least `until_next_store` cycles later, sees
// the new address.
unsigned address_stall(unsigned until_next_store);

// word0 and the active mask into the first two registers of `q`; waits until the quad's last store has read it.
void begin_record(ProbeContext& c, Sequence& seq, const Quad& q, wire::RecordKind kind, uint32_t index);
uint8_t wait_for(const ProbeContext& c, const Quad& q);
// Stores `words` (1, 2 or 4) of q at the record address + offset, marked by the quad's scoreboard.
void store_record(ProbeContext& c, Sequence& seq, const Quad& q, unsigned words, uint32_t offset);
// From inside the block: original instructions in [from, to] that write registers of a borrowed quad wait for its store.
void guard_borrowed(ProbeContext& c, const Quad& q, InstIndex from, InstIndex to);

// In front of every EXIT: this warp's WarpHeader gets the bytes written so far and the clock.
Status insert_exit_headers(ProbeContext& c);

}  // namespace xtrace::instrument
