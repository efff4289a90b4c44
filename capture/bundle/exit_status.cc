// Apart from bundle_writer.cc: `xtrace record` calls this, the injected library must not link the decoder it
// needs.
#include "base/file.h"
#include "capture/bundle/bundle_writer.h"
#include "capture/bundle/file_io.h"
#include "capture/bundle/framing.h"
#include "capture/bundle/messages.h"

namespace xtrace::bundle {
namespace fs = std::filesystem;

Status BundleWriter::set_application_exit_status(const fs::path& directory, int32_t status) {
  std::error_code ec;
  if (fs::exists(directory / incomplete_name, ec))
    return bad_input("the bundle {} is incomplete: its recorder did not finish", directory.string());
  const fs::path path = directory / manifest_name;
  XT_TRY(const Bytes file, read_file(path));
  XT_TRY_IN(const Bytes message, manifest_message(file), "in {}", path.string());
  XT_TRY_IN(const Bytes changed, manifest_with_exit_status(message, status), "in {}", path.string());
  XT_TRY(const Bytes changed_file, manifest_file(changed));
  return replace_file(path, changed_file);
}

}  // namespace xtrace::bundle
