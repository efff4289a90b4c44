#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>

#include <new>

#include "bundle.capnp.h"
#include "capture/bundle/framing.h"
#include "capture/bundle/launch_check.h"
#include "capture/bundle/messages.h"

namespace xtrace::bundle {
namespace {

// Runs `body` and turns what Cap'n Proto throws into an Error of `kind`.
template <typename Body>
auto at_border(ErrorKind kind, Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const kj::Exception& e) {
    return tl::make_unexpected(
        Error{kind, fmt::format("cap'n proto: {}", e.getDescription().cStr()), {}, {}});
  } catch (const std::bad_alloc&) {
    return environment("out of memory for a bundle message");
  } catch (const std::exception& e) {
    return tl::make_unexpected(Error{kind, fmt::format("cap'n proto: {}", e.what()), {}, {}});
  }
}

std::string string_of(capnp::Text::Reader t) { return {t.cStr(), t.size()}; }

std::vector<std::string> strings_of(capnp::List<capnp::Text>::Reader in) {
  std::vector<std::string> out;
  for (auto t : in) out.push_back(string_of(t));
  return out;
}

Bytes bytes_of(capnp::Data::Reader data) {
  const auto* p = reinterpret_cast<const std::byte*>(data.begin());
  return Bytes(p, p + data.size());
}

Result<std::vector<Hash128>> hashes_of(capnp::Data::Reader data, std::string_view what) {
  if (data.size() % sizeof(Hash128) != 0)
    return bad_input("{}: a list of hashes has {} bytes, expected a multiple of {}", what, data.size(),
                     sizeof(Hash128));
  std::vector<Hash128> out(data.size() / sizeof(Hash128));
  if (!out.empty()) std::memcpy(out.data(), data.begin(), data.size());
  return out;
}

Dim3 dim_of(wire::Dim3::Reader r) { return {r.getX(), r.getY(), r.getZ()}; }

// On disk the kinds have the schema's numbers; the C++ enum may be reordered without harm.
constexpr struct {
  RegionKind kind;
  wire::Region::Kind wire;
} region_kinds[] = {
    {RegionKind::device, wire::Region::Kind::DEVICE},
    {RegionKind::async_pool, wire::Region::Kind::ASYNC_POOL},
    {RegionKind::vmm, wire::Region::Kind::VMM},
    {RegionKind::managed, wire::Region::Kind::MANAGED},
    {RegionKind::asked, wire::Region::Kind::ASKED},
    {RegionKind::global, wire::Region::Kind::GLOBAL},
    {RegionKind::constant, wire::Region::Kind::CONSTANT},
};

Result<RegionKind> kind_of(wire::Region::Kind kind) {
  for (const auto& k : region_kinds)
    if (k.wire == kind) return k.kind;
  return unsupported("region kind {} is not known to this reader", static_cast<unsigned>(kind));
}

FunctionAttributes function_of(wire::FunctionAttributes::Reader r) {
  FunctionAttributes f;
  f.max_dynamic_shared = r.getMaxDynamicShared();
  f.preferred_carveout = r.getPreferredCarveout();
  f.non_portable_cluster = r.getNonPortableCluster();
  f.registers = r.getRegisters();
  f.local_bytes = r.getLocalBytes();
  f.static_shared = r.getStaticShared();
  f.constant_bytes = r.getConstantBytes();
  f.max_threads = r.getMaxThreads();
  return f;
}

Environment environment_of(wire::Environment::Reader r) {
  Environment e;
  e.gpu_name = string_of(r.getGpuName());
  e.gpu_uuid = string_of(r.getGpuUuid());
  e.sm = r.getSm();
  e.sm_count = r.getSmCount();
  e.memory_bytes = r.getMemoryBytes();
  e.l2_bytes = r.getL2Bytes();
  e.sm_clock_khz = r.getSmClockKhz();
  e.memory_clock_khz = r.getMemoryClockKhz();
  e.driver_version = r.getDriverVersion();
  e.kernel_driver = string_of(r.getKernelDriver());
  e.toolkit_version = r.getToolkitVersion();
  e.hostname = string_of(r.getHostname());
  e.started_at = string_of(r.getStartedAt());
  e.command = strings_of(r.getCommand());
  return e;
}

Result<Region> region_of(wire::Region::Reader r) {
  Region out;
  XT_TRY(out.kind, kind_of(r.getKind()));
  out.address = {r.getAddress()};
  out.size = r.getSize();
  out.symbol = string_of(r.getSymbol());
  XT_TRY(out.before, hashes_of(r.getBefore(), "memory before"));
  XT_TRY(out.after, hashes_of(r.getAfter(), "memory after"));
  return out;
}

Bytes flatten(capnp::MallocMessageBuilder& message) {
  const kj::Array<capnp::word> words = capnp::messageToFlatArray(message);
  const auto bytes = words.asBytes();
  const auto* p = reinterpret_cast<const std::byte*>(bytes.begin());
  return Bytes(p, p + bytes.size());
}

// A message copied to aligned memory, and the reader on it. Each value is read once, so the traversal limit
// is the size of the message with room for the fixed parts that Cap'n Proto counts twice: a large launch
// passes, and a small message that pretends to be large by overlapping pointers is refused.
struct Parsed {
  kj::Array<capnp::word> words;
  kj::Own<capnp::FlatArrayMessageReader> reader;
};

Parsed parse(ByteView message) {
  Parsed p;
  p.words = kj::heapArray<capnp::word>((message.size() + sizeof(capnp::word) - 1) / sizeof(capnp::word));
  std::memset(p.words.begin(), 0, p.words.size() * sizeof(capnp::word));
  if (!message.empty()) std::memcpy(p.words.begin(), message.data(), message.size());
  capnp::ReaderOptions options;
  options.traversalLimitInWords = 2 * p.words.size() + 1024;
  p.reader = kj::heap<capnp::FlatArrayMessageReader>(p.words, options);
  return p;
}

Status check_versions(wire::Manifest::Reader m) {
  if (m.getFormatVersion() == 0) return bad_input("format version 0: expected 1 or more");
  if (m.getMinimumReaderVersion() > reader_version)
    return with_hint(
        unsupported("format version {} needs reader version {}: this xtrace has reader version {}",
                    m.getFormatVersion(), m.getMinimumReaderVersion(), reader_version),
        "read the bundle with the xtrace that recorded it, or a newer one");
  for (auto quirk : m.getQuirks())
    return with_hint(unsupported("quirk '{}' is not known to this reader", quirk.cStr()),
                     "read the bundle with the xtrace that recorded it, or a newer one");
  return {};
}

Status read_status(LaunchRecord& l, wire::Launch::Reader r) {
  switch (r.getStatus()) {
    case wire::Launch::Status::RECORDED:
      l.status = LaunchStatus::recorded;
      return {};
    case wire::Launch::Status::SKIPPED:
      l.status = LaunchStatus::skipped;
      return {};
  }
  return unsupported("launch status {} is not known to this reader", static_cast<unsigned>(r.getStatus()));
}

Status read_code(StoredLaunch& out, wire::Launch::Reader r) {
  if (!r.hasCode()) return {};
  const auto c = r.getCode();
  XT_TRY(const std::vector<Hash128> hash, hashes_of(c.getHash(), "code"));
  if (hash.size() != 1) return bad_input("code has {} hashes: expected 1", hash.size());
  out.launch.code = hash[0];
  out.code.size = c.getSize();
  XT_TRY(out.code.chunks, hashes_of(c.getChunks(), "code"));
  if (out.code.chunks.size() != chunks_of(out.code.size))
    return bad_input("code of {} bytes has {} chunks: expected {}", out.code.size, out.code.chunks.size(),
                     chunks_of(out.code.size));
  return {};
}

void read_launch_scalars(LaunchRecord& l, wire::Launch::Reader r) {
  l.skip_reason = string_of(r.getSkipReason());
  l.kernel = string_of(r.getKernel());
  l.api = string_of(r.getApi());
  l.grid = dim_of(r.getGrid());
  l.block = dim_of(r.getBlock());
  l.cluster = dim_of(r.getCluster());
  l.dynamic_shared_bytes = r.getDynamicSharedBytes();
  l.cooperative = r.getCooperative();
  l.stream = r.getStream();
  l.snapshot_seconds = r.getSnapshotSeconds();
  l.graph = {r.getGraphLaunch(), r.getGraphNode()};
  l.param_block = bytes_of(r.getParamBlock());
}

Result<StoredLaunch> launch_of(wire::Launch::Reader r) {
  StoredLaunch out;
  LaunchRecord& l = out.launch;
  l.ordinal = r.getOrdinal();
  XT_TRY_STATUS(read_status(l, r));
  XT_TRY_STATUS(read_code(out, r));
  read_launch_scalars(l, r);
  for (auto a : r.getAttributes())
    l.attributes.push_back({a.getId(), string_of(a.getName()), bytes_of(a.getValue())});
  l.function = function_of(r.getFunction());
  for (auto p : r.getParams()) l.params.push_back({p.getOffset(), p.getSize()});
  for (auto region : r.getRegions()) {
    XT_TRY(Region decoded, region_of(region));
    l.regions.push_back(std::move(decoded));
  }
  XT_TRY_STATUS(check_launch(l));
  return out;
}

}  // namespace

Result<Manifest> decode_manifest(ByteView message) {
  return at_border(ErrorKind::bad_input, [&]() -> Result<Manifest> {
    Parsed parsed = parse(message);
    const auto m = parsed.reader->getRoot<wire::Manifest>();
    XT_TRY_STATUS(check_versions(m));
    Manifest out;
    out.info.format_version = m.getFormatVersion();
    out.info.minimum_reader_version = m.getMinimumReaderVersion();
    out.info.environment = environment_of(m.getEnvironment());
    out.info.launches_seen = m.getLaunchesSeen();
    out.info.warnings = strings_of(m.getWarnings());
    out.info.application_exit_status = m.getApplicationExitStatus();
    out.totals = {m.getLaunchCount(), m.getLaunchesBytes(), m.getPackBytes(), m.getChunkCount()};
    return out;
  });
}

Result<Bytes> manifest_with_exit_status(ByteView message, int32_t status) {
  return at_border(ErrorKind::bad_input, [&]() -> Result<Bytes> {
    Parsed parsed = parse(message);
    const auto m = parsed.reader->getRoot<wire::Manifest>();
    XT_TRY_STATUS(check_versions(m));
    capnp::MallocMessageBuilder copy;
    copy.setRoot(m);
    copy.getRoot<wire::Manifest>().setApplicationExitStatus(status);
    return flatten(copy);
  });
}

Result<StoredLaunch> decode_launch(ByteView message) {
  return at_border(ErrorKind::bad_input, [&]() -> Result<StoredLaunch> {
    Parsed parsed = parse(message);
    return launch_of(parsed.reader->getRoot<wire::Launch>());
  });
}

}  // namespace xtrace::bundle
