// The writer inside a shared library, as the recorder has it. It links only if nothing the writer needs comes
// from an archive that is not position-independent (wire_layout.h says which is not).
#include "capture/bundle/bundle_writer.h"

extern "C" __attribute__((visibility("default"))) bool record_nothing(const char* directory) {
  const auto writer = xtrace::bundle::BundleWriter::create(directory, {}, {});
  if (!writer) return false;
  const std::byte bytes[3] = {};
  if (!(*writer)->put_memory(bytes)) return false;
  const auto code = (*writer)->put_code(bytes);
  xtrace::bundle::LaunchRecord launch;
  launch.kernel = "k";
  if (code) launch.code = *code;
  return code && (*writer)->add_launch(launch) && (*writer)->finish({});
}
