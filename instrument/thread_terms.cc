#include "instrument/thread_terms.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/check.h"

namespace xtrace::instrument {
namespace {

// All bits from the lowest of these on: what multiples of it may have.
constexpr uint32_t from_lowest(uint32_t bits) { return bits == 0 ? 0 : ~0u << std::countr_zero(bits); }

// Bits that a sum may have, of two numbers whose bits lie in a and in b: where no carry reaches it, none.
constexpr uint32_t bits_of_sum(uint32_t a, uint32_t b) { return (a + b) | a | b; }

constexpr uint32_t below(unsigned bits) { return bits >= 32 ? ~0u : (1u << bits) - 1; }

uint32_t bits_of_product(uint32_t bits, uint32_t factor) {
  if (bits == 0 || factor == 0) return 0;
  if (std::has_single_bit(factor)) return bits << std::countr_zero(factor);
  const int lowest = std::countr_zero(bits) + std::countr_zero(factor);
  const uint64_t most = uint64_t{bits} * factor;
  const uint32_t above = lowest >= 32 ? 0 : ~0u << lowest;
  return most >> 32 != 0 ? above : above & below(static_cast<unsigned>(std::bit_width(most)));
}

constexpr uint32_t lop3(uint8_t table, uint32_t a, uint32_t b, uint32_t c) {
  uint32_t d = 0;
  for (unsigned k = 0; k < 8; ++k)
    if (table >> k & 1) d |= ((k & 4) != 0 ? a : ~a) & ((k & 2) != 0 ? b : ~b) & ((k & 1) != 0 ? c : ~c);
  return d;
}

}  // namespace

ThreadTerms::ThreadTerms(const Dim3& block) : threads_(static_cast<uint32_t>(block.count())), block_(block) {
  XT_CHECK(threads_ != 0 && threads_ <= 1024, "threads of a CTA");
  number(0);   // is table 0
}

Term ThreadTerms::made(uint32_t unknown, Table numbers) {
  if (std::all_of(numbers.begin(), numbers.end(), [&](uint32_t n) { return n == numbers[0]; })) numbers.resize(1);
  const auto [found, added] = known_.try_emplace(std::move(numbers), static_cast<uint32_t>(tables_.size()));
  if (added) tables_.push_back(found->first);
  return {unknown, found->second};
}

template <typename F, typename... Terms>
Term ThreadTerms::each(uint32_t unknown, F f, Terms... of) {
  const bool one = (... && (tables_[of.table].size() == 1));
  Table numbers(one ? 1 : threads_);
  for (uint32_t t = 0; t < numbers.size(); ++t) numbers[t] = f(at(tables_[of.table], t)...);
  return made(unknown, std::move(numbers));
}

Term ThreadTerms::number(uint32_t n) { return made(0, {n}); }
Term ThreadTerms::lane() {
  Table numbers(threads_);
  for (uint32_t t = 0; t < threads_; ++t) numbers[t] = t % warp_lanes;
  return made(0, std::move(numbers));
}
Term ThreadTerms::thread(unsigned axis) {
  Table numbers(threads_);
  for (uint32_t t = 0; t < threads_; ++t)
    numbers[t] = axis == 0 ? t % block_.x : axis == 1 ? t / block_.x % block_.y : t / block_.x / block_.y;
  return made(0, std::move(numbers));
}

bool ThreadTerms::same_in_warps(const Table& t) const {
  for (uint32_t k = 0; k < t.size(); ++k)
    if (t[k] != t[k - k % warp_lanes]) return false;
  return true;
}
bool ThreadTerms::is_uniform(Term t) const { return same_in_warps(tables_[t.table]); }
std::optional<uint32_t> ThreadTerms::number_of(Term t) const {
  const Table& table = tables_[t.table];
  return t.unknown == 0 && table.size() == 1 ? std::optional(table[0]) : std::nullopt;
}

Term ThreadTerms::relative(Term t) {
  Table numbers = tables_[t.table];
  for (uint32_t first = 0; first < numbers.size(); first += warp_lanes) {
    const uint32_t of_first = numbers[first];
    for (uint32_t k = first; k < numbers.size() && k < first + warp_lanes; ++k) numbers[k] -= of_first;
  }
  return made(t.unknown, std::move(numbers));
}

Term ThreadTerms::add(Term a, Term b) {
  return each(bits_of_sum(a.unknown, b.unknown), [](uint32_t x, uint32_t y) { return x + y; }, a, b);
}
Term ThreadTerms::negate(Term a) {
  return each(from_lowest(a.unknown), [](uint32_t x) { return 0 - x; }, a);
}

std::optional<Term> ThreadTerms::multiply(Term a, Term b) {
  if (!is_known(b)) std::swap(a, b);
  if (!is_known(b)) return is_uniform(a) && is_uniform(b) ? std::optional(uniform()) : std::nullopt;
  uint32_t unknown = 0;
  if (const auto factor = number_of(b)) {
    unknown = bits_of_product(a.unknown, *factor);
  } else if (!is_known(a)) {   // the base times a number that differs from lane to lane is no base
    if (!is_uniform(b)) return std::nullopt;
    unknown = from_lowest(a.unknown);
  }
  return each(unknown, [](uint32_t x, uint32_t y) { return x * y; }, a, b);
}
std::optional<Term> ThreadTerms::high_product(Term a, Term b, bool is_signed) {
  if (!is_known(a) || !is_known(b)) return is_uniform(a) && is_uniform(b) ? std::optional(uniform()) : std::nullopt;
  return each(0, [&](uint32_t x, uint32_t y) {
    const auto product = is_signed ? static_cast<uint64_t>(int64_t{static_cast<int32_t>(x)} * static_cast<int32_t>(y)) : uint64_t{x} * y;
    return static_cast<uint32_t>(product >> 32);
  }, a, b);
}

std::optional<Term> ThreadTerms::disjoint(Term a) {
  const Table& numbers = tables_[a.table];
  const auto apart = [&] { return std::all_of(numbers.begin(), numbers.end(), [&](uint32_t n) { return (n & a.unknown) == 0; }); };
  if (apart()) return a;
  // What the lanes of each warp have in common above the lowest unknown bit goes to the base, if that is all that they have there.
  const uint32_t low = ~from_lowest(a.unknown);
  uint32_t unknown = a.unknown;
  for (uint32_t k = 0; k < numbers.size(); ++k) {
    const uint32_t high = numbers[k] & ~low;
    if (high != (numbers[k - k % warp_lanes] & ~low)) return std::nullopt;
    // Where it surely meets no carry its bits stay as they are; the others are unknown.
    unknown |= (a.unknown + high) ^ high;
  }
  return each(unknown, [&](uint32_t n) { return n & ~unknown; }, a);
}

std::optional<Term> ThreadTerms::shift_left(Term a, Term by) {
  const auto n = number_of(by);
  if (n) return *n >= 32 ? number(0) : each(a.unknown << *n, [&](uint32_t x) { return x << *n; }, a);
  if (is_known(a) && is_known(by)) return each(0, [](uint32_t x, uint32_t y) { return y >= 32 ? 0 : x << y; }, a, by);
  return is_uniform(a) && is_uniform(by) ? std::optional(uniform()) : std::nullopt;
}

std::optional<Term> ThreadTerms::shift_right(Term a, Term by, bool is_signed) {
  const auto shift = [&](uint32_t x, uint32_t n) {
    if (n >= 32) return is_signed && x >> 31 != 0 ? ~0u : 0;
    return is_signed ? static_cast<uint32_t>(static_cast<int32_t>(x) >> n) : x >> n;
  };
  if (is_known(a) && is_known(by)) return each(0, shift, a, by);
  const auto n = number_of(by);
  if (n) {
    if (const auto d = disjoint(a)) return each(shift(d->unknown, *n), [&](uint32_t x) { return shift(x, *n); }, *d);
  }
  return is_uniform(a) && is_uniform(by) ? std::optional(uniform()) : std::nullopt;
}

std::optional<Term> ThreadTerms::logic(uint8_t table, Term a, Term b, Term c) {
  // Under a mask of low bits carries beyond it do not matter.
  constexpr uint8_t a_and_b = 0xc0;
  if (table == a_and_b)
    for (const auto& [mask, other] : {std::pair(a, &b), std::pair(b, &a)})
      if (const auto m = number_of(mask)) {
        const uint32_t low = below(static_cast<unsigned>(std::bit_width(*m)));
        *other = each(other->unknown & low, [&](uint32_t x) { return x & low; }, *other);
      }
  const auto da = disjoint(a), db = disjoint(b), dc = disjoint(c);
  if (!da || !db || !dc) return logic_below(table, a, b, c);
  const auto result = [&](uint32_t thread, unsigned set) {
    return lop3(table, at(*da, thread) | ((set & 4) != 0 ? da->unknown : 0), at(*db, thread) | ((set & 2) != 0 ? db->unknown : 0),
                at(*dc, thread) | ((set & 1) != 0 ? dc->unknown : 0));
  };
  // Bits that depend on the bases, and those that depend on them in one way here and in another there.
  const bool one = tables_[da->table].size() == 1 && tables_[db->table].size() == 1 && tables_[dc->table].size() == 1;
  uint32_t depend = 0, differ = 0;
  Table numbers(one ? 1 : threads_);
  for (uint32_t t = 0; t < numbers.size(); ++t) {
    numbers[t] = result(t, 0);
    for (unsigned set = 0; set < 8; ++set) {
      depend |= result(t, set) ^ numbers[t];
      differ |= result(t, set) ^ result(t - t % warp_lanes, set);
    }
  }
  if ((depend & differ) != 0) return std::nullopt;
  for (uint32_t& n : numbers) n &= ~depend;
  return made(depend, std::move(numbers));
}

std::optional<Term> ThreadTerms::logic_below(uint8_t table, Term a, Term b, Term c) {
  const std::array<Term, 3> of{a, b, c};
  const auto base = std::find_if(of.begin(), of.end(), [&](Term t) { return !is_known(t); });
  if (std::count_if(of.begin(), of.end(), [&](Term t) { return !is_known(t); }) != 1) return std::nullopt;
  const uint32_t high = from_lowest(base->unknown);
  bool as_they_are = true;
  const Term result = each(base->unknown, [&](uint32_t x, uint32_t y, uint32_t z) {
    const auto with = [&](uint32_t bits) {
      const auto k = base - of.begin();
      return lop3(table, k == 0 ? bits : x, k == 1 ? bits : y, k == 2 ? bits : z);
    };
    as_they_are &= (with(~0u) & high) == high && (with(0) & high) == 0;
    return (base == of.begin() ? x & high : base == of.begin() + 1 ? y & high : z & high) | (lop3(table, x, y, z) & ~high);
  }, a, b, c);
  return as_they_are ? std::optional(result) : std::nullopt;
}

std::optional<Term> ThreadTerms::permute(Term a, Term selector, Term b) {
  const auto bytes = [](uint32_t x, uint32_t which, uint32_t y) {
    const uint64_t source = uint64_t{y} << 32 | x;
    uint32_t result = 0;
    for (unsigned k = 0; k < 4; ++k) {
      const uint32_t nibble = which >> (4 * k) & 0xf;
      auto byte = static_cast<uint32_t>(source >> (8 * (nibble & 7)) & 0xff);
      if ((nibble & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;   // its sign, eight times
      result |= byte << (8 * k);
    }
    return result;
  };
  if (is_known(a) && is_known(selector) && is_known(b)) return each(0, bytes, a, selector, b);
  if (const auto which = number_of(selector); which && (*which & 0x8888) == 0)
    if (const auto da = disjoint(a), db = disjoint(b); da && db)
      return each(bytes(da->unknown, *which, db->unknown), [&](uint32_t x, uint32_t y) { return bytes(x, *which, y); }, *da, *db);
  return is_uniform(a) && is_uniform(selector) && is_uniform(b) ? std::optional(uniform()) : std::nullopt;
}

std::optional<Term> ThreadTerms::of_lane(Term a, uint32_t lane) {
  if (is_uniform(a)) return a;
  if (threads_ % warp_lanes != 0 || lane >= warp_lanes) return std::nullopt;
  Table numbers = tables_[a.table];
  for (uint32_t first = 0; first < numbers.size(); first += warp_lanes)
    std::fill_n(numbers.begin() + first, warp_lanes, numbers[first + lane]);
  return made(a.unknown, std::move(numbers));
}

std::optional<Term> ThreadTerms::join(Term a, Term b) {
  if (a.table == b.table) return Term{a.unknown | b.unknown, a.table};
  // From the one to the other leads what is one for each warp: that belongs to the base.
  const Term apart = add({0, a.table}, negate({0, b.table}));
  if (!is_uniform(apart)) return std::nullopt;
  uint32_t bits = a.unknown | b.unknown;
  for (const uint32_t n : tables_[apart.table]) bits |= n;
  return Term{from_lowest(bits), a.table};
}

}  // namespace xtrace::instrument
