#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "capture/bundle/chunk_store.h"
#include "capture/bundle/framing.h"
#include "capture/bundle/launch_check.h"

namespace xtrace::bundle {
namespace {

using DecompressionContext = std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)>;

// A replay restores tens of gigabytes; more threads than this do not help a single disk.
constexpr unsigned max_threads = 8;
constexpr uint64_t chunks_per_thread = 8;

}  // namespace

ChunkStoreReader::ChunkStoreReader(Fd fd, std::filesystem::path path, uint64_t bytes)
    : fd_(std::move(fd)), path_(std::move(path)), pack_bytes_(bytes) {}

Result<std::unique_ptr<ChunkStoreReader>> ChunkStoreReader::open(const std::filesystem::path& pack) {
  XT_TRY(Fd fd, open_for_reading(pack));
  XT_TRY(const uint64_t bytes, size_of(fd, pack));
  return std::unique_ptr<ChunkStoreReader>(new ChunkStoreReader(std::move(fd), pack, bytes));
}

void ChunkStoreReader::index() const {
  std::call_once(once_, [this] { walk(); });
}

void ChunkStoreReader::walk() const {
  const auto stop_at = [&](uint64_t offset, const std::string& why) {
    damage_ = fmt::format("pack: dropped {} bytes from offset {:#x}: {}", pack_bytes_ - offset, offset, why);
  };
  char magic[magic_bytes] = {};
  if (const Status s = read_exactly(fd_, std::as_writable_bytes(std::span(magic)), 0, path_); !s)
    return stop_at(0, s.error().message);
  if (std::memcmp(magic, pack_magic.data(), magic_bytes) != 0)
    return stop_at(0, fmt::format("expected the file to begin with {}", pack_magic));

  uint64_t offset = magic_bytes;
  while (offset < pack_bytes_) {
    if (pack_bytes_ - offset < sizeof(Header))
      return stop_at(offset, fmt::format("torn header: expected {} bytes, found {}", sizeof(Header),
                                         pack_bytes_ - offset));
    Header h;
    if (const Status s = read_exactly(fd_, std::as_writable_bytes(std::span(&h, 1)), offset, path_); !s)
      return stop_at(offset, s.error().message);
    if (const Status s = verify_header(h, frame_tag); !s) return stop_at(offset, s.error().message);
    if (h.raw_size == 0 || h.raw_size > chunk_bytes || h.stored_size > ZSTD_compressBound(h.raw_size))
      return stop_at(offset,
                     fmt::format("impossible sizes: {} bytes stored in {}", h.raw_size, h.stored_size));
    const uint64_t body = offset + sizeof(Header);
    if (pack_bytes_ - body < h.stored_size)
      return stop_at(
          offset, fmt::format("torn frame: expected {} bytes, found {}", h.stored_size, pack_bytes_ - body));
    frames_.try_emplace(h.hash(), Frame{body, h.raw_size, h.stored_size});
    offset = body + h.stored_size;
  }
}

bool ChunkStoreReader::contains(const Hash128& hash) const {
  index();
  return frames_.contains(hash);
}

uint64_t ChunkStoreReader::chunk_count() const {
  index();
  return frames_.size();
}

Result<Bytes> ChunkStoreReader::read(const std::vector<Hash128>& chunks, uint64_t size) const {
  if (chunks.size() != chunks_of(size))
    return bad_input("{} chunks named for {} bytes: expected {}", chunks.size(), size, chunks_of(size));
  index();
  Bytes out;
  try {
    out.resize(size);
  } catch (const std::exception&) {
    return environment("out of memory for {} bytes of recorded memory", size);
  }

  std::atomic<uint64_t> next{0};
  std::mutex mutex;
  std::optional<Error> failure;
  const auto work = [&] {
    const DecompressionContext context(ZSTD_createDCtx(), &ZSTD_freeDCtx);
    Bytes scratch;
    for (uint64_t i; (i = next.fetch_add(1)) < chunks.size();) {
      const uint64_t begin = i * chunk_bytes;
      const std::span<std::byte> target(out.data() + begin, std::min<uint64_t>(chunk_bytes, size - begin));
      if (Status s = read_chunk(chunks[i], target, context.get(), scratch); !s) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::move(s).error().in(fmt::format("chunk {} of {}", i, chunks.size()));
        next = chunks.size();
      }
    }
  };
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  const uint64_t wanted = std::min<uint64_t>({max_threads, cores, chunks.size() / chunks_per_thread + 1});
  std::vector<std::thread> helpers;
  try {
    for (uint64_t i = 1; i < wanted; ++i) helpers.emplace_back(work);
  } catch (const std::system_error&) {
    // Fewer helpers: slower, not wrong.
  }
  work();
  for (std::thread& t : helpers) t.join();
  if (failure) return tl::make_unexpected(std::move(*failure));
  return out;
}

Status ChunkStoreReader::read_chunk(const Hash128& hash, std::span<std::byte> out, void* context,
                                    Bytes& scratch) const {
  const auto it = frames_.find(hash);
  if (it == frames_.end())
    return bad_input("chunk {} is not in {}{}{}", hash.hex(), path_.string(), damage_.empty() ? "" : "; ",
                     damage_);
  const Frame& frame = it->second;
  if (frame.raw_size != out.size())
    return bad_input("chunk {} has {} bytes: expected {}", hash.hex(), frame.raw_size, out.size());
  try {
    if (context == nullptr) return environment("out of memory for a decompression context");
    scratch.resize(frame.stored_size);
  } catch (const std::exception&) {
    return environment("out of memory for a chunk of {} bytes", frame.stored_size);
  }
  XT_TRY_STATUS(read_exactly(fd_, scratch, frame.offset, path_));
  const size_t n = ZSTD_decompressDCtx(static_cast<ZSTD_DCtx*>(context), out.data(), out.size(),
                                       scratch.data(), scratch.size());
  if (ZSTD_isError(n))
    return bad_input("damaged chunk {} at offset {:#x} of {}: zstd: {}", hash.hex(), frame.offset,
                     path_.string(), ZSTD_getErrorName(n));
  if (n != out.size())
    return bad_input("damaged chunk {} at offset {:#x} of {}: expected {} bytes, found {}", hash.hex(),
                     frame.offset, path_.string(), out.size(), n);
  if (const Hash128 found = hash128(out); found != hash)
    return bad_input("damaged chunk at offset {:#x} of {}: expected hash {}, found {}", frame.offset,
                     path_.string(), hash.hex(), found.hex());
  return {};
}

}  // namespace xtrace::bundle
