#include "instrument/linked_code.h"

#include <elf.h>

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "instrument/cubin/join_info.h"
#include "instrument/sass/branch.h"
#include "instrument/sass/encode.h"

namespace xtrace::instrument {
namespace {

using cubin::Relocation;
using cubin::Symbol;

constexpr uint16_t op_call_absolute = 0x943, op_call_relative = 0x944, op_call_absolute_register = 0x343, op_call_relative_register = 0x344,
                   op_ret = 0x950, op_brx = 0x949;
constexpr BitRange opcode_field = bits(11, 0), immediate_field = bits(63, 32);
constexpr unsigned ret_is_absolute = 85;
constexpr uint32_t low_half = 56, high_half = 57;               // R_CUDA_ABS32_LO_32, R_CUDA_ABS32_HI_32
constexpr uint32_t word64 = 2, global_word64 = 4;               // R_CUDA_64, R_CUDA_G64
constexpr uint64_t section_alignment = 128;                     // of code [vendor code: 9,260 of 9,260]
constexpr uint64_t most_apart = 1 << 20;                        // bytes, of functions that pointers lead to: the room between them is code, too
constexpr std::string_view text_prefix = ".text.", as_a_whole = "compile the program as a whole (without -rdc=true)";

bool is_defined(const Symbol& s) { return s.section != SHN_UNDEF && s.section < SHN_LORESERVE; }

class Gatherer {
 public:
  Gatherer(cubin::Image image, cubin::KernelInfo info, const sass::Arch& arch, const FunctionAddresses& addresses)
      : image_(std::move(image)), info_(std::move(info)), arch_(arch), addresses_(addresses), relocations_(image_.relocations()) {}

  Status reach() {
    XT_TRY_STATUS(keep(info_.text_section));
    XT_TRY_STATUS(read_call_graph());
    while (!work_.empty()) {
      const uint32_t text = work_.back();
      work_.pop_back();
      for (const Relocation& r : relocations_)
        if (r.target_section == text && symbol(r).is_function()) XT_TRY_STATUS(follow(r));
      if (calls_pointer(text)) XT_TRY_STATUS(follow_pointers(text));
    }
    return {};
  }
  bool has_pointers() const { return !pointed_.empty(); }   // behind reach()

  Result<Bytes> gather() {
    XT_TRY_STATUS(place());
    XT_TRY_STATUS(copy());
    XT_TRY_STATUS(fill_variables());
    move_lines();
    image_.set_section_data(info_.text_section, std::move(text_));
    image_.drop_relocations(filled_);
    for (const Relocation& r : moved_) image_.add_relocation(r);
    for (const auto& [section, at] : base_) {
      if (section == info_.text_section) continue;
      XT_TRY_STATUS(cubin::join_info(image_, info_, section, static_cast<uint32_t>(at)));
    }
    XT_TRY_STATUS(name());
    return image_.write();
  }

 private:
  const Symbol& symbol(const Relocation& r) const { return image_.symbols()[r.symbol]; }
  const cubin::Section& section(uint32_t s) const { return image_.sections()[s]; }
  std::string text(const Relocation& r) const {
    return fmt::format("relocation of type {} at {:#x} of {} against {}", r.type, r.offset, section(r.target_section).name, symbol(r).name);
  }
  Result<sass::RawInst> word_of(const Relocation& r) const {
    return read_at<sass::RawInst>(section(r.target_section).data, r.offset / sass::inst_bytes * sass::inst_bytes, "instruction of a relocation");
  }
  // REL: in the instruction; where an address has two relocations, each has one half of it. [nvlink 13.0, sm_80: 0]
  Result<int64_t> addend(const Relocation& r) const {
    if (r.has_addend) return r.addend;
    XT_TRY(const sass::RawInst w, word_of(r));
    const bool is_half = r.type == low_half || r.type == high_half, is_call = sass::opcode13(w) == op_call_absolute;
    if ((is_half && get_bits(w, immediate_field) == 0) || (is_call && sass::branch_immediate(arch_, w) == 0)) return 0;
    return unsupported("{}: the addend is not known", text(r));
  }

  // --- which sections

  Status keep(uint32_t text) {
    if (base_.contains(text)) return {};
    if (section(text).data.size() % sass::inst_bytes != 0) return bad_input("{} is no whole number of instructions", section(text).name);
    base_[text] = 0;
    work_.push_back(text);
    return {};
  }

  Status point_to(uint32_t function) {
    const Symbol& f = image_.symbols()[function];
    if (!f.is_function() || !is_defined(f) || !section(f.section).name.starts_with(text_prefix)) return unsupported("pointers lead to {}, which is no function of the program", f.name);
    if (f.is_entry()) return unsupported("the address of kernel {} is taken", f.name);
    if (!addresses_.contains(function))
      return with_hint(unsupported("pointers lead to function {}, and no variable that was recorded holds its address", f.name),
                       fmt::format("put it into a __device__ or __constant__ table that is not written to; or {}", as_a_whole));
    if (f.value != 0) return unsupported("pointers lead to function {}, which does not begin its section", f.name);
    pointed_[f.section] = function;
    return keep(f.section);
  }

  Status follow(const Relocation& r) {
    const Symbol& to = symbol(r);
    XT_TRY(const sass::RawInst w, word_of(r));
    const bool is_call = sass::opcode13(w) == op_call_absolute, is_half = r.type == low_half || r.type == high_half;
    if (!is_call && !is_half) return unsupported("{}", text(r));
    if (!is_defined(to)) {   // of the driver: a call of one is refused where the code is read, or ends the launch (__assertfail)
      if (!is_call) return unsupported("the address of the driver's function {} is taken", to.name);
      return {};
    }
    if (!section(to.section).name.starts_with(text_prefix)) return unsupported("{}", text(r));
    if (is_call && to.section != r.target_section) return keep(to.section);
    XT_TRY(const int64_t at, addend(r));
    if (is_half && (to.section != r.target_section || at == 0)) {
      if (at != 0) return unsupported("{} + {:#x}", text(r), at);
      return point_to(r.symbol);
    }
    return {};
  }

  // Calls through pointers lead to functions of the type that they are for, which is how the linker counts registers and stack, too: the
  // call graph has a number for each type. Pairs of symbols and numbers, behind marks: {0, -2} functions whose address is taken, and their
  // types; {0, -3} functions that call through pointers, and of which type. [nvlink 13.0, sm_80 and sm_90]
  Status read_call_graph() {
    constexpr uint32_t first_mark = 0xfffffffc, address_taken = 0xfffffffe, calls_through_pointer = 0xfffffffd;
    const auto found = image_.find_section(".nv.callgraph");
    if (!found) return {};
    const ByteView data = section(*found).data;
    uint32_t mark = 0;
    for (uint64_t at = 0; at + 2 * sizeof(uint32_t) <= data.size(); at += 2 * sizeof(uint32_t)) {
      XT_TRY(const uint32_t function, read_at<uint32_t>(data, at, "call graph"));
      XT_TRY(const uint32_t other, read_at<uint32_t>(data, at + sizeof(uint32_t), "call graph"));
      if (function == 0 && other >= first_mark) mark = other;
      else if (function >= image_.symbols().size()) return bad_input("the call graph names symbol {} of {}", function, image_.symbols().size());
      else if (mark == address_taken) of_type_[other].insert(function);
      else if (mark == calls_through_pointer) types_called_[image_.symbols()[function].section].insert(other);
    }
    return {};
  }

  Status follow_pointers(uint32_t text) {
    const auto types = types_called_.find(text);
    if (types == types_called_.end())
      return unsupported("{} calls through a pointer, and the call graph (.nv.callgraph) does not say of which type", section(text).name.substr(text_prefix.size()));
    for (const uint32_t type : types->second) {
      if (of_type_[type].empty()) return unsupported("{} calls through a pointer, and no function of its type has its address taken", section(text).name.substr(text_prefix.size()));
      for (const uint32_t function : of_type_[type]) XT_TRY_STATUS(point_to(function));
    }
    return {};
  }

  bool calls_pointer(uint32_t text) const {
    const ByteView data = section(text).data;
    for (uint64_t at = 0; at < data.size(); at += sass::inst_bytes)
      if (sass::opcode13(*read_at<sass::RawInst>(data, at, "instruction")) == op_call_absolute_register) return true;
    return false;
  }
  bool is_data(uint32_t s) const { return (section(s).flags & SHF_ALLOC) != 0 && (section(s).flags & SHF_EXECINSTR) == 0; }

  // --- where they go

  // Behind the kernel: first what pointers lead to, then the rest.
  Status place() {
    uint64_t end = align_up(section(info_.text_section).data.size(), section_alignment);
    std::map<uint64_t, uint32_t> by_address;
    for (const auto& [text, function] : pointed_)
      if (!by_address.emplace(addresses_.at(function), text).second)
        return unsupported("two functions, {} among them, have the address {:#x}", image_.symbols()[function].name, addresses_.at(function));
    if (!by_address.empty()) {
      const uint64_t first = by_address.begin()->first, last = by_address.rbegin()->first;
      if (last - first > most_apart)
        return unsupported("functions that pointers lead to lie {} bytes apart, and up to {} are followed", last - first, most_apart);
      pointer_base_ = static_cast<int64_t>(end) - static_cast<int64_t>(first);
      uint64_t free = end;
      for (const auto& [address, text] : by_address) {
        const uint64_t at = address + static_cast<uint64_t>(pointer_base_);
        if (at % sass::inst_bytes != 0 || at < free)
          return unsupported("the recorded address {:#x} of {} lies in another function, or in the middle of an instruction", address, section(text).name);
        base_[text] = at;
        free = at + section(text).data.size();
      }
      end = align_up(free, section_alignment);
    }
    for (auto& [text, at] : base_) {
      if (text == info_.text_section || pointed_.contains(text)) continue;
      at = end;
      end = align_up(end + section(text).data.size(), section_alignment);
    }
    if (end > std::numeric_limits<uint32_t>::max()) return unsupported("kernel {} and its functions have {} bytes", info_.name, end);
    size_ = end;
    return {};
  }

  // --- their code

  Status copy() {
    const sass::RawInst nothing = sass::enc::for_arch(arch_, sass::enc::trap());
    for (uint64_t at = 0; at < size_; at += sass::inst_bytes) append(text_, nothing);
    for (const auto& [from, at] : base_) {
      const ByteView data = section(from).data;
      for (uint64_t offset = 0; offset < data.size(); offset += sass::inst_bytes) {
        XT_TRY(sass::RawInst w, read_at<sass::RawInst>(data, offset, "instruction"));
        XT_TRY_STATUS(make_relative(w, static_cast<uint32_t>(at + offset), from));
        write_at(std::span<std::byte>(text_), at + offset, w);
      }
    }
    for (size_t k = 0; k < relocations_.size(); ++k) {
      const Relocation& r = relocations_[k];
      const auto base = base_.find(r.target_section);
      if (base == base_.end()) continue;
      XT_TRY(const bool filled, fill(r, base->second));
      if (filled && r.target_section == info_.text_section) filled_.push_back(k);
      if (!filled && r.target_section != info_.text_section) XT_TRY_STATUS(move(r, base->second));
    }
    return {};
  }

  Status make_relative(sass::RawInst& w, uint32_t pc, uint32_t from) const {
    const uint16_t opcode = sass::opcode13(w);
    const auto function = [&] { return section(from).name.substr(text_prefix.size()); };
    const bool absolute_return = opcode == op_ret && get_bits(w, bit(ret_is_absolute)) != 0;
    if ((opcode == op_call_absolute_register || absolute_return) && sass::branch_immediate(arch_, w) != 0)
      return unsupported("{} at {:#x} has a constant beside its register", function(), pc);
    if (opcode == op_call_absolute_register) {
      set_bits(w, opcode_field, op_call_relative_register & 0xfff);
      return sass::set_register_branch_base(arch_, w, pc, pointer_base_);
    }
    if (from != info_.text_section && (opcode == op_brx || (opcode == op_ret && !absolute_return)))
      return unsupported("function {}, which has a section of its own, {}", function(), opcode == op_brx ? "has a jump table" : "returns relative to it");
    if (!absolute_return) return {};
    set_bits(w, bit(ret_is_absolute), 0);
    return sass::set_register_branch_base(arch_, w, pc, 0);
  }

  // A relocation against a function. False: one that stays.
  Result<bool> fill(const Relocation& r, uint64_t base) {
    const Symbol& to = symbol(r);
    if (!to.is_function() || !is_defined(to)) return false;
    const uint64_t pc = base + r.offset / sass::inst_bytes * sass::inst_bytes;
    XT_TRY(sass::RawInst w, read_at<sass::RawInst>(text_, pc, "instruction"));
    XT_TRY(const int64_t offset, addend(r));
    const uint64_t place = base_.at(to.section) + to.value + static_cast<uint64_t>(offset);
    if (sass::opcode13(w) == op_call_absolute) {
      set_bits(w, opcode_field, op_call_relative & 0xfff);
      XT_TRY_STATUS(sass::set_target(arch_, w, static_cast<uint32_t>(pc), static_cast<int64_t>(place)));
    } else {
      const bool is_pointer = offset == 0;
      const uint64_t value = is_pointer ? addresses_.at(r.symbol) : place;
      set_bits(w, immediate_field, static_cast<uint32_t>(r.type == low_half ? value : value >> 32));
    }
    write_at(std::span<std::byte>(text_), pc, w);
    return true;
  }

  // One of another section's, into the kernel's.
  Status move(Relocation r, uint64_t base) {
    const auto table = [&](uint32_t type) {
      for (uint32_t s = 1; s < image_.sections().size(); ++s)
        if (section(s).type == type && section(s).info == info_.text_section) return s;
      return 0u;
    };
    XT_TRY(r.addend, addend(r));
    r.relocation_section = table(SHT_RELA);
    r.has_addend = r.relocation_section != 0;
    if (!r.has_addend) r.relocation_section = table(SHT_REL);
    if (r.relocation_section == 0 || (!r.has_addend && r.addend != 0)) return unsupported("{}: kernel {} has no place for it", text(r), info_.name);
    r.target_section = info_.text_section;
    r.offset += base;
    moved_.push_back(r);
    return {};
  }

  // --- variables, and names

  // What they hold comes from recorded memory; the loader is not to fill in where it puts the functions.
  Status fill_variables() {
    for (size_t k = 0; k < relocations_.size(); ++k) {
      const Relocation& r = relocations_[k];
      const auto known = addresses_.find(r.symbol);
      if (!is_data(r.target_section) || known == addresses_.end() || (r.type != word64 && r.type != global_word64)) continue;
      Bytes data = section(r.target_section).data;
      if (r.offset > data.size() || data.size() - r.offset < sizeof(uint64_t)) return bad_input("{} lies outside of it", text(r));
      write_at(std::span<std::byte>(data), r.offset, known->second);
      image_.set_section_data(r.target_section, std::move(data));
      filled_.push_back(k);
    }
    return {};
  }

  // A sequence of .debug_line begins at a function; those of functions that have a copy here are the copy's.
  void move_lines() {
    for (size_t k = 0; k < relocations_.size(); ++k) {
      Relocation r = relocations_[k];
      const auto base = base_.find(symbol(r).section);
      if (section(r.target_section).name != ".debug_line" || !r.has_addend || base == base_.end() || base->first == info_.text_section) continue;
      r.addend += static_cast<int64_t>(base->second + symbol(r).value);
      r.symbol = info_.symbol;
      filled_.push_back(k);
      moved_.push_back(r);
    }
  }

  Status name() {
    image_.set_symbol(info_.symbol, 0, size_);
    for (const auto& [text, function] : pointed_) {
      uint32_t own = 0;
      for (uint32_t s = 1; s < image_.symbols().size() && own == 0; ++s)
        if ((image_.symbols()[s].info & 0xf) == STT_SECTION && image_.symbols()[s].section == text) own = s;
      if (own == 0 || image_.symbols()[own].name != section(text).name) return unsupported("section {} has no symbol of its name", section(text).name);
      image_.move_symbol(own, STT_FUNC, static_cast<uint16_t>(info_.text_section), base_.at(text), section(text).data.size());
    }
    return {};
  }

  cubin::Image image_;
  const cubin::KernelInfo info_;
  const sass::Arch& arch_;
  const FunctionAddresses& addresses_;
  const std::vector<Relocation> relocations_;
  std::map<uint32_t, std::set<uint32_t>> of_type_, types_called_;   // type -> functions; section -> types
  std::map<uint32_t, uint64_t> base_;        // section -> where its copy stands
  std::map<uint32_t, uint32_t> pointed_;     // section -> symbol of its function, to which pointers may lead
  std::vector<uint32_t> work_;
  int64_t pointer_base_ = 0;                 // a pointer and this are an offset in the kernel's section
  uint64_t size_ = 0;
  Bytes text_;
  std::vector<size_t> filled_;               // indices of relocations
  std::vector<Relocation> moved_;
};

}  // namespace

bool is_linked(const cubin::Image& image, const cubin::KernelInfo& info) {
  return std::ranges::any_of(image.relocations(), [&](const Relocation& r) {
    const Symbol& to = image.symbols()[r.symbol];
    return r.target_section == info.text_section && to.is_function() && is_defined(to);
  });
}

Result<WholeProgram> as_whole_program(cubin::Image image, std::string_view kernel, const FunctionAddresses& addresses) {
  XT_TRY(cubin::KernelInfo info, cubin::kernel_info(image, kernel));
  XT_TRY(const sass::Arch* arch, sass::find_arch(image.sm()));
  Gatherer gatherer(std::move(image), std::move(info), *arch, addresses);
  const auto refused = [&](Error&& e) {
    Error why = std::move(e).in(fmt::format("the functions of kernel {}, compiled apart (-rdc=true)", kernel));
    if (why.kind == ErrorKind::unsupported && why.hint.empty()) why.hint = as_a_whole;
    return why;
  };
  if (Status reached = gatherer.reach(); !reached) return tl::make_unexpected(refused(std::move(reached).error()));
  Result<Bytes> whole = gatherer.gather();
  if (whole) return WholeProgram{std::move(*whole), {}};
  Error why = refused(std::move(whole).error());
  if (why.kind != ErrorKind::unsupported || gatherer.has_pointers()) return tl::make_unexpected(std::move(why));
  return WholeProgram{{}, fmt::format("{}; {}", why.message, why.hint)};
}

bool is_pointed_to(const cubin::LocalFunction& function) { return function.name.starts_with(text_prefix); }

}  // namespace xtrace::instrument
