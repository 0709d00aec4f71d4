// RunState: as JSON.
#include "run_state.h"

#include "../../autograd/core/check.h"
#include "../io/json.h"

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

using nlohmann::json;

// null, or [step, score, loss].
bool is_best(const json& best) {
  if (best.is_null()) return true;
  if (!best.is_array() || best.size() != 3) return false;
  return best[0].is_number_integer() && best[0] > 0 && best[1].is_number() && best[2].is_number();
}

bool is_state(const json& state) {
  return state.is_object() && state.contains("data") && state["data"].is_string() && state.contains("best") &&
         is_best(state["best"]);
}

}  // namespace

std::string dumped(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

std::string text_of(const RunState& state) {
  const Best& best = state.best;
  json object = {{"data", state.data}};
  object["best"] = best.step > 0 ? json{best.step, best.score, best.loss} : json();
  if (!state.is_evaluated) object["is_evaluated"] = false;
  return dumped(object);
}

RunState read_run_state(const SafeTensorsFile& file) {
  const auto found = file.metadata().find(kRunKey);
  const bool is_there = found != file.metadata().end();
  const json object = is_there ? parse_json(found->second, file.name() + ": " + kRunKey) : json();
  check<FormatError>(is_state(object), file.name(), ": ", kRunKey, " is not the state of a training");
  RunState state{.data = object["data"].get<std::string>()};
  const json& best = object["best"];
  if (best.is_array()) state.best = {best.at(0), best.at(1), best.at(2)};
  state.is_evaluated = object.value("is_evaluated", json(true)) != false;
  return state;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
