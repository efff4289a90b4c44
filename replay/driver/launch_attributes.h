// Recorded launch attributes -> what a replay passes to cuLaunchKernelEx. One table says for every attribute
// whether it is passed on, dropped with a note, or refused.
#pragma once

#include <cuda.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "capture/bundle/launch_record.h"

namespace xtrace::replay {

enum class AttributeUse {
  pass,  // the recorded value is passed on
  drop,  // it means nothing for one launch alone; `note` tells the user when it is worth knowing
};

struct AttributeRule {
  CUlaunchAttributeID id;
  const char* name;
  AttributeUse use;
  const char* note;  // what differs on replay; nullptr = nothing
};

const std::vector<AttributeRule>& attribute_rules();

struct LaunchSetup {
  std::vector<CUlaunchAttribute> attributes;
  std::vector<std::string> notes;
};

// Cluster size and cooperative launches are added when the record has them outside its attribute list (older
// launch calls). unsupported, by name: an attribute missing from the table. bad_input: a value of the wrong
// size.
Result<LaunchSetup> launch_setup(const bundle::LaunchRecord& record);

}  // namespace xtrace::replay
