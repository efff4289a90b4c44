// One file per probe in this folder: what it inserts where. probe_bodies() is the table of them; the public names and
// summaries are in instrument/probe.h.
#pragma once

#include <span>

#include "instrument/blocks.h"
#include "instrument/instrument.h"
#include "instrument/relocate.h"
#include "instrument/scratch.h"
#include "instrument/sequence.h"

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

// --- shared pieces. Waits for registers that a store has yet to read are added afterwards (waits.h).

// Every head takes at least this long from its first instruction to its first store.
constexpr unsigned least_head_cycles = latency::vector_to_memory;

// Moves the cursor by `bytes`: the part that may stand early (bump_cursor), and the part that changes where the next
// record goes (bump_address), after the last store that uses the old value. `until_next_store`: cycles from behind
// bump_address to the next store, at least; what they lack, bump_address waits.
void bump_cursor(ProbeContext& c, Sequence& seq, uint32_t bytes);
void bump_address(ProbeContext& c, Sequence& seq, uint32_t bytes, unsigned until_next_store);

// Stores the first `words` (1, 2 or 4) of h at the record address + offset, by the lane under `guard` or by all active
// lanes, which then store the same words to the same place.
void store_words(ProbeContext& c, Sequence& seq, const Holder& h, unsigned words, uint32_t offset,
                 std::optional<sass::enc::Pred> guard = std::nullopt);

// Sum of the stall counts of instructions [from, to).
unsigned stall_cycles(const Code& code, InstIndex from, InstIndex to);

// In front of every EXIT of a kernel whose slots wrap, and of every kernel under `count`: this warp's WarpHeader gets
// the bytes written so far and the clock (`count`: the two sums of bytes).
Status insert_exit_headers(ProbeContext& c);

}  // namespace xtrace::instrument
