// The address map in a trace file (docs/trace-format.md).
#pragma once

#include <string>

#include "trace/varint.h"
#include "trace/wire/address_map.h"

namespace xtrace::trace {

void encode_map(std::string& out, const wire::AddressMap& map);
// What is damaged fails `in`.
void decode_map(VarintReader& in, wire::AddressMap& map);

}  // namespace xtrace::trace
