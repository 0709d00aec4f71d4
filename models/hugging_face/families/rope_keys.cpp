// rope_parameters, rope_scaling and their older neighbours.
#include "rope_keys.h"

#include "../../../autograd/core/check.h"

#include <cstdint>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;
using Model = LanguageModelConfig;

namespace {

constexpr const char* kOriginalLength = "original_max_position_embeddings";

struct NamedScale {
  const char* name;
  RotaryScale kind;
};
constexpr NamedScale kScales[] = {{"default", RotaryScale::none},
                                  {"linear", RotaryScale::linear},
                                  {"llama3", RotaryScale::llama3},
                                  {"yarn", RotaryScale::yarn},
                                  {"dynamic", RotaryScale::dynamic}};

RotaryScale scale_named(const std::string& name) {
  for (const NamedScale& scale : kScales)
    if (name == scale.name) return scale.kind;
  return RotaryScale::none;
}

const char* name_of(RotaryScale kind) {
  for (const NamedScale& scale : kScales)
    if (kind == scale.kind) return scale.name;
  return "default";
}

double required(const ConfigKeys& keys, const char* name) {
  check<FormatError>(keys.has(name), keys.name(), ": '", name, "' is missing");
  const double value = keys.number(name, 0);
  check<FormatError>(value > 0 && value < 1e15, keys.name(), ": '", name, "' is not positive, or too large");
  return value;
}

RotaryScale read_kind(const ConfigKeys& keys) {
  json known;
  for (const NamedScale& scale : kScales) known.push_back(scale.name);
  const json type = keys.one_of("type", known);  // its name before rope_type
  json first{type};
  for (const json& name : known)
    if (name != type) first.push_back(name);
  return scale_named(keys.one_of("rope_type", first));
}

// The length that vectors get: what is said, or what follows from the factor.
double read_length(const ConfigKeys& keys, double factor) {
  const bool has_both = keys.number("mscale", 0) != 0 && keys.number("mscale_all_dim", 0) != 0;
  const double said =
      has_both ? yarn_length(factor, keys.number("mscale", 1)) / yarn_length(factor, keys.number("mscale_all_dim", 1))
               : yarn_length(factor);
  return keys.number("attention_factor", said);
}

RotaryScaling read_scaling(const ConfigKeys& keys, const Model& m) {
  RotaryScaling s{.kind = read_kind(keys)};
  if (s.kind == RotaryScale::none) return s;
  s.factor = required(keys, "factor");
  const double length = keys.has(kOriginalLength) ? required(keys, kOriginalLength) : m.max_length;
  if (s.kind == RotaryScale::dynamic)
    check<FormatError>(length >= m.max_length, keys.name(), ": '", kOriginalLength,
                       "' is less than 'max_position_embeddings', which is not supported for the type dynamic");
  if (s.kind == RotaryScale::llama3) {
    s.original_length = required(keys, kOriginalLength);
    s.slow = required(keys, "low_freq_factor");
    s.fast = required(keys, "high_freq_factor");
  }
  if (s.kind == RotaryScale::yarn) {
    s.original_length = length;
    s.slow = keys.number("beta_slow", 1);
    s.fast = keys.number("beta_fast", 32);
    s.is_rounded = keys.flag("truncate", true);
    s.length = read_length(keys, s.factor);
  }
  return s;
}

json scaling_json(const RotaryScaling& s) {
  json all{{"rope_type", name_of(s.kind)}};
  if (s.kind == RotaryScale::none) return all;
  all["factor"] = s.factor;
  if (s.kind == RotaryScale::llama3)
    all.update({{kOriginalLength, static_cast<std::int64_t>(s.original_length)},
                {"low_freq_factor", s.slow},
                {"high_freq_factor", s.fast}});
  if (s.kind == RotaryScale::yarn)
    all.update({{kOriginalLength, static_cast<std::int64_t>(s.original_length)},
                {"beta_slow", s.slow},
                {"beta_fast", s.fast},
                {"truncate", s.is_rounded},
                {"attention_factor", s.length}});
  return all;
}

bool has_part(const ConfigKeys& keys, const char* part) {
  return keys.has(part) && *keys.find(part) != false && !keys.find(part)->empty();
}

// rope_scaling stands for all of rope_parameters, as in Hugging Face's loaders; nothing if there is neither.
const char* part_that_counts(const ConfigKeys& keys) {
  const bool has_parameters = has_part(keys, "rope_parameters");  // asked for in any case: it is known
  if (has_part(keys, "rope_scaling")) return "rope_scaling";
  return has_parameters ? "rope_parameters" : nullptr;
}

ConfigKeys part_of(const ConfigKeys& keys, const std::string& part) {
  return ConfigKeys(keys.name() + ": '" + part + "'", *keys.find(part));
}

// One set of rotary positions: all that a part says of it.
struct Rope {
  double& theta;
  RopeConfig& config;
  bool is_partial = false;
};

void read_part(const ConfigKeys& part, const Model& m, const Rope& rope) {
  rope.theta = part.number("rope_theta", rope.theta);
  if (rope.is_partial) rope.config.share = part.number("partial_rotary_factor", rope.config.share);
  rope.config.scaling = read_scaling(part, m);
  part.check_others();
}

bool is_usual(const RopeConfig& config) { return config == RopeConfig{}; }

// Those of layers without a window, and of layers with one.
void read_both(const ConfigKeys& both, Model& m) {
  if (has_part(both, "full_attention")) read_part(part_of(both, "full_attention"), m, {m.rope_theta, m.decoder.rope});
  if (has_part(both, "sliding_attention")) {
    RopeConfig local;
    const ConfigKeys part = part_of(both, "sliding_attention");
    read_part(part, m, {m.decoder.local_rope_theta, local});
    check<FormatError>(is_usual(local), part.name(), ": scaled positions are not supported there");
  }
  both.check_others();
}

json part_json(double theta, const RopeConfig& config) {
  json all = scaling_json(config.scaling);
  all["rope_theta"] = theta;
  if (config.share != 1) all["partial_rotary_factor"] = config.share;
  return all;
}

}  // namespace

Key rope(const RopeKeys& names) {
  const Names theta(names.theta);
  const Names share(names.share);
  const auto read = [=](const ConfigKeys& keys, Model& m) {
    m.rope_theta = keys.number(theta.in(keys), names.usual_theta);
    if (names.is_partial) m.decoder.rope.share = keys.number(share.in(keys), names.usual_share);
    if (const char* const part = part_that_counts(keys))
      read_part(part_of(keys, part), m, {m.rope_theta, m.decoder.rope, names.is_partial});
  };
  const auto write = [=](json& all, const Model& m) {
    const RopeConfig& config = m.decoder.rope;
    all[theta.first()] = m.rope_theta;
    if (names.is_partial) all[share.first()] = config.share;
    if (!is_usual(config)) all["rope_parameters"] = part_json(m.rope_theta, config);
    if (config.scaling.kind != RotaryScale::none) all["rope_scaling"] = scaling_json(config.scaling);
  };
  return {read, write};
}

Key two_ropes() {
  const auto read = [](const ConfigKeys& keys, Model& m) {
    m.rope_theta = keys.number("rope_theta", 1e6);
    m.decoder.local_rope_theta = keys.number("rope_local_base_freq", 10000);
    if (has_part(keys, "rope_parameters")) read_both(part_of(keys, "rope_parameters"), m);
    if (has_part(keys, "rope_scaling")) read_part(part_of(keys, "rope_scaling"), m, {m.rope_theta, m.decoder.rope});
  };
  const auto write = [](json& all, const Model& m) {
    const double local = m.decoder.local_rope_theta;
    all["rope_theta"] = m.rope_theta;
    all["rope_local_base_freq"] = local;
    if (!is_usual(m.decoder.rope)) all["rope_scaling"] = scaling_json(m.decoder.rope.scaling);
    all["rope_parameters"] = {{"full_attention", part_json(m.rope_theta, m.decoder.rope)},
                              {"sliding_attention", part_json(local, {})}};
  };
  return {read, write};
}

}  // namespace SEPPO_ABI
}  // namespace seppo
