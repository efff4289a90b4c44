// Messages between the processes of one replay: a length and CBOR, over a pipe or a socket.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

namespace xtrace::cli {

bool send(int fd, const nlohmann::json& message);
// Nothing at the end of the stream, or when what came is no message.
std::optional<nlohmann::json> receive(int fd);

}  // namespace xtrace::cli
