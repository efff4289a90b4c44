// Texture and surface accesses, as they are up to sm_90. [nvdisasm 13.5] On later architectures their fields are not known:
// registers alone are printed.
#include "instrument/sass/printer.h"

namespace xtrace::sass {
namespace {

constexpr unsigned rz = 255;

// Where the handle of the texture or surface is; each mnemonic has an opcode for each.
enum class Handle : uint8_t {
  uniform,   // a uniform register and an index
  constant,  // a constant
  indexed,   // a constant of the first 64 words and an index
  operand,   // the first register of another operand
  last,      // the register at [71:64]
};
Handle handle(const Printer& p) {
  const uint16_t op = opcode13(p.word());
  if ((op & 0x1000) != 0) return Handle::uniform;
  switch (op) {
    case 0xb62:
    case 0xb65:
    case 0xb68:
    case 0xb6b:
    case 0xb6e:
    case 0xb71:
    case 0xb74:
      return Handle::indexed;
    default:
      break;
  }
  const bool surface = p.form().space() == MemSpace::surface;
  switch (op >> 8) {
    case 0x7:
      return Handle::indexed;
    case 0x5:
    case 0xb:
      return Handle::constant;
    default:
      return surface ? Handle::last : Handle::operand;
  }
}
// The handle with the comma behind it.
void put_handle(Printer& p) {
  switch (handle(p)) {
    case Handle::uniform:
      return p.render("{Ut}, {x@53:46}");
    case Handle::constant:
      return p.render("{x@58:54}, {x@53:40}");
    case Handle::indexed:
      return p.render("{x@58:54}, {x@45:40}, {x@53:46}");
    case Handle::operand:
      return;
    case Handle::last:
      return p.gpr_at(64);
  }
}
void later_architecture(Printer& p) {
  p.put(" ");
  bool first = true;
  for (const auto& slots : {std::span<const Slot>(p.form().defs), std::span<const Slot>(p.form().uses)})
    for (const Slot& s : slots) {
      if (s.kind != SlotKind::gpr) continue;
      if (!first) p.put(", ");
      first = false;
      p.gpr_at(s.low);
    }
}

void texture(Printer& p) {
  const std::string_view m = p.form().mnemonic;
  const Handle where = handle(p);
  const bool load = m == "TLD", gather = m == "TLD4", level = m == "TMML", derivatives = m == "TXD", query = m == "TXQ",
             footprint = m == "FOOTPRINT";
  if (p.arch().sm >= 100) return later_architecture(p);
  const bool scratch = !level && !derivatives && !query;
  if (scratch) p.render("<.SCR@60>");
  if (gather) p.render("<#texcomponent@88:87>");
  if (where != Handle::uniform) p.render("<.B@59>");
  if (level)
    p.render(".LOD<.NDV@77>");
  else if (footprint)
    p.render("<#footprint@78:78><.COARSE@76><#texlevel@89:87><.NDV@77>");
  else if (gather)
    p.render("<#f16round@80:79><#texgather@77:76><.DC@78><#cache@86:84>");
  else if (derivatives)
    p.render("<#f16round@80:79><.LC@87><.AOFFI@76><#cache@86:84>");
  else if (load)
    p.render("<#f16round@80:79><#tld@89:87><.AOFFI@76><#cache@86:84><.MS@78><.CL@77>");
  else if (!query)
    p.render("<#f16round@80:79><#texlevel@89:87><.AOFFI@76><.DC@78><#cache@86:84><.NDV@77>");
  p.render("<.NODEP@90> ");
  if (!level && !query) p.render("{Pu?}");
  p.render("{Rc}, {Rd}, {Ra}");
  if (query)
    p.render(", <#texquery@63:62>");
  else if (derivatives || p.field(39, 32) != rz)
    p.render(", {Rb}");
  if (where != Handle::operand) p.put(", ");
  put_handle(p);
  if (query) return p.render(", {x@75:72}");
  const std::string_view shapes = load || derivatives ? ", <#texdim@63:61>"
                                  : gather            ? ", <#texshape4@63:61>"
                                  : footprint         ? ", <#texshape2@63:61>"
                                                      : ", <#texshape@63:61>";
  p.render(shapes);
  if (!footprint) p.render("<, {x}@75:72!15>");
}

// How it is ordered: as of global accesses; what is done outside of the surface comes last.
void surface(Printer& p) {
  const std::string_view m = p.form().mnemonic;
  const uint16_t op = opcode13(p.word());
  const unsigned low = op & 0xff;
  const bool atomic = m == "SUATOM" || m == "SURED", stores = m != "SULD";
  const bool formatted = low == 0x97 || low == 0x98 || low == 0x9b || low == 0x9c;
  const bool swaps = low == 0x95 || low == 0x96;
  if (p.arch().sm >= 100) return later_architecture(p);
  p.put(formatted ? ".P." : p.flag(72) ? ".D.BA." : ".D.");
  p.render("<#surfshape@63:61>");
  if (atomic) p.render(swaps ? ".CAS" : m == "SUATOM" ? "<#surfop@90:87>" : "<#surfop@89:87>");
  p.render("<#cache@86:84>");
  if (atomic)
    p.render(swaps ? "<#surfcas@75:73>" : "<#surftype@75:73>");
  else if (!formatted)
    p.render("<#surfsize@75:73>");
  print_order(p);
  if (formatted) p.render("<#surfcomponents@75:72>");
  p.render("<#surfoutside@60:59> ");
  if (m == "SULD" || m == "SUATOM") p.render("{Pu?}{Rd}, ");
  p.render("[{Ra}], ");
  if (stores) p.render("{Rb}, ");
  put_handle(p);
}

constexpr Token tokens[] = {{"tex", texture}, {"surf", surface}};

}  // namespace

std::span<const Token> texture_tokens() { return tokens; }

}  // namespace xtrace::sass
