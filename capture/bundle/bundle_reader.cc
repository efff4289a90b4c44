#include "capture/bundle/bundle_reader.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "base/file.h"
#include "capture/bundle/chunk_store.h"
#include "capture/bundle/framing.h"
#include "capture/bundle/messages.h"

namespace xtrace::bundle {
namespace fs = std::filesystem;

struct BundleReader::Impl {
  fs::path directory;
  BundleInfo info;
  BundleTotals totals;
  std::vector<LaunchRecord> launches;
  std::unordered_map<Hash128, StoredCode> codes;
  std::unique_ptr<ChunkStoreReader> pack;  // null when the recorder died before it created the file
  bool finished = false;                   // what the directory says, before its files were looked at
  uint64_t records = 0;                    // whole records in `launches`, used or not

  Status load();
  Status load_manifest();
  Status load_launches();
  Status load_pack();
  Status walk_records(const Fd& fd, const fs::path& path, uint64_t size);
  void add_record(ByteView message, const Header& header, uint64_t offset);
  bool chunks_present(const LaunchRecord& launch);

  // Something of a finished bundle is missing or damaged: what is left is served, and never called complete.
  void warn(std::string text) {
    info.warnings.push_back(std::move(text));
    info.state = BundleState::incomplete;
  }
};

Status BundleReader::Impl::load_manifest() {
  std::error_code ec;
  if (!fs::is_directory(directory, ec))
    return with_hint(bad_input("{} is not a bundle: {}", directory.string(), fs::exists(directory, ec) ? "it is no directory" : "no such directory"),
                     "record one with: xtrace record -o run.xtr ./app");
  const bool incomplete = fs::exists(directory / incomplete_name, ec);
  const bool has_manifest = fs::exists(directory / manifest_name, ec);
  if (!incomplete && !has_manifest)
    return with_hint(bad_input("{} is not a bundle: expected a file {} or {} in it", directory.string(),
                               manifest_name, incomplete_name),
                     "record one with: xtrace record -o run.xtr ./app");
  // Both are there when the recorder died between the last two steps of finish(): the manifest knows more.
  const fs::path path = directory / (has_manifest ? manifest_name : incomplete_name);
  XT_TRY(const Bytes file, read_file(path));
  XT_TRY_IN(const Bytes message, manifest_message(file), "in {}", path.string());
  XT_TRY_IN(Manifest manifest, decode_manifest(message), "in {}", path.string());
  info = std::move(manifest.info);
  totals = manifest.totals;
  finished = !incomplete;
  info.state = finished ? BundleState::complete : BundleState::incomplete;
  return {};
}

void BundleReader::Impl::add_record(ByteView message, const Header& header, uint64_t offset) {
  if (const Hash128 found = hash128(message); found != header.hash())
    return warn(fmt::format("launches: dropped the record at offset {:#x}: expected hash {}, found {}",
                            offset, header.hash().hex(), found.hex()));
  Result<StoredLaunch> decoded = decode_launch(message);
  if (!decoded)
    return warn(
        fmt::format("launches: dropped the record at offset {:#x}: {}", offset, decoded.error().to_string()));
  if (decoded->launch.code != Hash128{}) codes.try_emplace(decoded->launch.code, std::move(decoded->code));
  launches.push_back(std::move(decoded->launch));
}

Status BundleReader::Impl::walk_records(const Fd& fd, const fs::path& path, uint64_t size) {
  uint64_t offset = magic_bytes;
  const auto torn = [&](const std::string& why) {
    warn(fmt::format("launches: dropped {} bytes from offset {:#x}: {}", size - offset, offset, why));
    return Status{};
  };
  Bytes message;
  while (offset < size) {
    if (size - offset < sizeof(Header))
      return torn(fmt::format("torn header: expected {} bytes, found {}", sizeof(Header), size - offset));
    Header h;
    XT_TRY_STATUS(read_exactly(fd, std::as_writable_bytes(std::span(&h, 1)), offset, path));
    if (const Status s = verify_header(h, record_tag); !s) return torn(s.error().message);
    const uint64_t body = offset + sizeof(Header);
    if (size - body < h.stored_size)
      return torn(fmt::format("torn record: expected {} bytes, found {}", h.stored_size, size - body));
    message.resize(h.stored_size);
    XT_TRY_STATUS(read_exactly(fd, message, body, path));
    add_record(message, h, offset);
    ++records;
    offset = body + h.stored_size;
  }
  return {};
}

Status BundleReader::Impl::load_launches() {
  const fs::path path = directory / launches_name;
  std::error_code ec;
  if (!fs::exists(path, ec)) {
    warn("launches: the file is missing");
    return {};
  }
  XT_TRY(const Fd fd, open_for_reading(path));
  XT_TRY(const uint64_t size, size_of(fd, path));
  char magic[magic_bytes] = {};
  if (size < magic_bytes) {
    warn(fmt::format("launches: dropped {} bytes: torn file magic", size));
    return {};
  }
  XT_TRY_STATUS(read_exactly(fd, std::as_writable_bytes(std::span(magic)), 0, path));
  if (std::memcmp(magic, launches_magic.data(), magic_bytes) != 0)
    return bad_input("{}: expected it to begin with {}", path.string(), launches_magic);
  XT_TRY_STATUS(walk_records(fd, path, size));
  if (finished && (size != totals.launches_bytes || records != totals.launch_count))
    warn(fmt::format("launches: expected {} launches in {} bytes, found {} in {}", totals.launch_count,
                     totals.launches_bytes, records, size));

  std::stable_sort(launches.begin(), launches.end(),
                   [](const LaunchRecord& a, const LaunchRecord& b) { return a.ordinal < b.ordinal; });
  for (size_t i = 1; i < launches.size();) {
    if (launches[i].ordinal != launches[i - 1].ordinal) {
      ++i;
      continue;
    }
    warn(fmt::format("launches: dropped a second launch {}", launches[i].ordinal));
    launches.erase(launches.begin() + static_cast<ptrdiff_t>(i));
  }
  if (info.launches_seen == 0 && !launches.empty()) info.launches_seen = launches.back().ordinal + 1;
  return {};
}

bool BundleReader::Impl::chunks_present(const LaunchRecord& launch) {
  const auto missing_in = [&](const std::vector<Hash128>& hashes) {
    return std::any_of(hashes.begin(), hashes.end(),
                       [&](const Hash128& h) { return !pack || !pack->contains(h); });
  };
  const auto code = codes.find(launch.code);
  if (code != codes.end() && missing_in(code->second.chunks)) return false;
  return std::none_of(launch.regions.begin(), launch.regions.end(),
                      [&](const Region& r) { return missing_in(r.before) || missing_in(r.after); });
}

// A complete bundle whose pack has the size it was finished with is indexed when the first chunk is wanted.
// Otherwise the pack is walked now, and a launch whose memory did not survive is dropped.
Status BundleReader::Impl::load_pack() {
  const fs::path path = directory / pack_name;
  std::error_code ec;
  if (!fs::exists(path, ec)) {
    warn("pack: the file is missing");
  } else {
    XT_TRY(pack, ChunkStoreReader::open(path));
    if (finished && pack->pack_bytes() == totals.pack_bytes) return {};
    if (finished)
      warn(fmt::format("pack: expected {} bytes, found {}", totals.pack_bytes, pack->pack_bytes()));
    pack->index();
    if (!pack->damage().empty()) warn(pack->damage());
  }
  std::erase_if(launches, [&](const LaunchRecord& launch) {
    if (chunks_present(launch)) return false;
    warn(fmt::format("launch {}: dropped: part of its code or memory is not in the pack", launch.ordinal));
    return true;
  });
  return {};
}

// Launches before pack: a recorder that is still running writes the pack first, so every launch seen has its
// chunks.
Status BundleReader::Impl::load() {
  XT_TRY_STATUS(load_manifest());
  XT_TRY_STATUS(load_launches());
  return load_pack();
}

BundleReader::BundleReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BundleReader::~BundleReader() = default;

Result<std::unique_ptr<BundleReader>> BundleReader::open(const fs::path& directory) {
  try {
    auto impl = std::make_unique<Impl>();
    impl->directory = directory;
    XT_TRY_STATUS(impl->load());
    return std::unique_ptr<BundleReader>(new BundleReader(std::move(impl)));
  } catch (const std::exception& e) {
    return environment("can not open the bundle {}: {}", directory.string(), e.what());
  }
}

const BundleInfo& BundleReader::info() const { return impl_->info; }
const std::vector<LaunchRecord>& BundleReader::launches() const { return impl_->launches; }
const fs::path& BundleReader::directory() const { return impl_->directory; }

Result<Bytes> BundleReader::memory(const std::vector<Hash128>& chunks, uint64_t size) const {
  if (!impl_->pack) return bad_input("the bundle {} has no pack", impl_->directory.string());
  return impl_->pack->read(chunks, size);
}

Result<Bytes> BundleReader::code(const Hash128& hash) const {
  const auto it = impl_->codes.find(hash);
  if (it == impl_->codes.end())
    return bad_input("no launch of the bundle {} has code {}", impl_->directory.string(), hash.hex());
  XT_TRY_IN(Bytes bytes, memory(it->second.chunks, it->second.size), "in code {}", hash.hex());
  if (const Hash128 found = hash128(bytes); found != hash)
    return bad_input("damaged code: expected hash {}, found {}", hash.hex(), found.hex());
  return bytes;
}

uint64_t BundleReader::code_size(const Hash128& hash) const {
  const auto it = impl_->codes.find(hash);
  return it == impl_->codes.end() ? 0 : it->second.size;
}

uint64_t BundleReader::pack_bytes() const { return impl_->pack ? impl_->pack->pack_bytes() : 0; }

uint64_t BundleReader::chunk_count() const {
  if (!impl_->pack) return 0;
  return impl_->finished && impl_->pack->pack_bytes() == impl_->totals.pack_bytes
             ? impl_->totals.chunk_count
             : impl_->pack->chunk_count();
}

}  // namespace xtrace::bundle
