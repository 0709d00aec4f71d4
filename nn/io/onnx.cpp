// OnnxGraph: protobuf's wire format, and the messages of onnx.proto3 that a graph needs.
#include "onnx.h"

#include "atomic_file.h"

#include "../../autograd/core/check.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

static_assert(std::endian::native == std::endian::little);

// ---- protobuf: a message is a list of fields, each a key, which has its number and how it is stored, and a value

enum class Wire : std::uint64_t { varint = 0, bytes = 2, fixed32 = 5 };

// Seven bits a byte, the lowest first; the high bit says that another byte follows.
void put_varint(std::string& to, std::uint64_t value) {
  while (value >= 0x80) {
    to += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  to += static_cast<char>(value);
}

void put_key(std::string& to, std::uint64_t field, Wire wire) {
  put_varint(to, field << 3 | static_cast<std::uint64_t>(wire));
}

void put(std::string& to, std::uint64_t field, std::int64_t value) {
  put_key(to, field, Wire::varint);
  put_varint(to, static_cast<std::uint64_t>(value));
}

void put(std::string& to, std::uint64_t field, std::string_view text) {
  put_key(to, field, Wire::bytes);
  put_varint(to, text.size());
  to += text;
}

void put(std::string& to, std::uint64_t field, float value) {
  put_key(to, field, Wire::fixed32);
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  to.append(bytes, sizeof bytes);
}

// The key and size of a field whose bytes follow.
std::string begin_bytes(std::uint64_t field, std::uint64_t size) {
  std::string begin;
  put_key(begin, field, Wire::bytes);
  put_varint(begin, size);
  return begin;
}

// ---- the messages of onnx.proto3: numbers of fields as there

constexpr std::int64_t kIrVersion = 8, kOperatorSet = 17;
constexpr int kFloat = 1, kInt64 = 7, kDouble = 11;  // TensorProto.DataType
constexpr int kReal = sizeof(real) == sizeof(float) ? kFloat : kDouble;
constexpr std::uint64_t kMostBytes = (std::uint64_t{1} << 31) - 1;

constexpr std::uint64_t kRawData = 9;                                                            // of TensorProto
constexpr std::uint64_t kNode = 1, kGraphName = 2, kInitializer = 5, kInput = 11, kOutput = 12;  // of GraphProto
constexpr std::uint64_t kGraph = 7;                                                              // of ModelProto

int data_type(OnnxType type) { return type == OnnxType::reals ? kReal : kInt64; }

std::string attribute_message(const OnnxAttribute& attribute) {
  constexpr std::int64_t kOneFloat = 1, kOneInt = 2, kInts = 7;  // AttributeProto.AttributeType
  constexpr std::uint64_t kName = 1, kF = 2, kI = 3, kListOfInts = 8, kType = 20;
  std::string message;
  put(message, kName, attribute.name);
  if (const auto* const integer = std::get_if<std::int64_t>(&attribute.value)) {
    put(message, kI, *integer);
    put(message, kType, kOneInt);
  } else if (const auto* const number = std::get_if<double>(&attribute.value)) {
    put(message, kF, static_cast<float>(*number));
    put(message, kType, kOneFloat);
  } else {
    for (const std::int64_t value : std::get<std::vector<std::int64_t>>(attribute.value))
      put(message, kListOfInts, value);
    put(message, kType, kInts);
  }
  return message;
}

// A TensorProto without its values.
std::string tensor_header(const std::string& name, int type, std::span<const std::int64_t> shape) {
  constexpr std::uint64_t kDims = 1, kDataType = 2, kName = 8;
  std::string message;
  for (const std::int64_t size : shape) put(message, kDims, size);
  put(message, kDataType, std::int64_t{type});
  put(message, kName, name);
  return message;
}

// A TensorShapeProto.Dimension.
std::string size_message(const OnnxSize& size) {
  constexpr std::uint64_t kValue = 1, kParameter = 2;
  std::string message;
  if (const auto* const number = std::get_if<std::int64_t>(&size.value))
    put(message, kValue, *number);
  else
    put(message, kParameter, std::get<std::string>(size.value));
  return message;
}

// A ValueInfoProto: the name, and a TypeProto of a tensor.
std::string port_message(const std::string& name, OnnxType type, std::span<const OnnxSize> sizes) {
  std::string shape, tensor, all, message;
  for (const OnnxSize& size : sizes) put(shape, 1, size_message(size));
  put(tensor, 1, std::int64_t{data_type(type)});
  put(tensor, 2, shape);
  put(all, 1, tensor);
  put(message, 1, name);
  put(message, 2, all);
  return message;
}

std::string port_line(const char* kind, const std::string& name, OnnxType type, std::span<const OnnxSize> sizes) {
  std::string line = std::string(kind) + " " + name + ": ";
  if (type == OnnxType::integers)
    line += "int64";
  else
    line += kReal == kFloat ? "float32" : "float64";
  std::string separator = " [";
  for (const OnnxSize& size : sizes) {
    const auto* const number = std::get_if<std::int64_t>(&size.value);
    line += separator + (number ? std::to_string(*number) : std::get<std::string>(size.value));
    separator = ",";
  }
  return line + "]\n";
}

}  // namespace

OnnxValue OnnxGraph::claim(const std::string& name) {
  check<ArgumentError>(!name.empty() && names_.insert(name).second, "onnx: the name '", name, "' is taken or empty");
  return {name};
}

// "encoder.0.ffn/MatMul", "encoder.0.ffn/MatMul_2" ...
std::string OnnxGraph::next_name(const std::string& kind) {
  const std::string name = part_.empty() ? kind : part_ + "/" + kind;
  const int count = ++counts_[name];
  return count == 1 ? name : name + "_" + std::to_string(count);
}

void OnnxGraph::check_known(const std::string& user, const OnnxValue& value) const {
  check<ArgumentError>(names_.contains(value.name), "onnx: ", user, " is given '", value.name,
                       "', which is no value of this graph");
}

OnnxValue OnnxGraph::input(const std::string& name, OnnxType type, List<OnnxSize> sizes) {
  inputs_.push_back({name, type, {sizes.begin(), sizes.end()}});
  return claim(name);
}

// An output has the name of the value that it is, so the value gets another one by an op that changes nothing.
void OnnxGraph::output(const std::string& name, const OnnxValue& value, OnnxType type, List<OnnxSize> sizes) {
  check_known(name, value);
  const OnnxValue result = claim(name);
  add_node("Identity", name + "/Identity", {value}, {&result, 1}, {});
  outputs_.push_back({name, type, {sizes.begin(), sizes.end()}});
}

OnnxValue OnnxGraph::weight(const Tensor& tensor) {
  const std::vector<std::int64_t> shape(tensor.shape().sizes().begin(), tensor.shape().sizes().end());
  OnnxValue& known = weights_[{tensor.data(), shape}];
  if (known.defined()) return known;
  const std::string* const own = tensor.node().name();
  known = claim(own && !own->empty() ? *own : next_name("table"));
  constants_.push_back({tensor_header(known.name, kReal, shape), {}, std::as_bytes(tensor.values())});
  return known;
}

OnnxValue OnnxGraph::add_own(const std::string& kind, int type, const std::vector<std::int64_t>& shape,
                             std::span<const std::byte> values) {
  const std::string bytes(reinterpret_cast<const char*>(values.data()), values.size());
  OnnxValue& known = own_[{tensor_header("", type, shape), bytes}];
  if (known.defined()) return known;
  const std::string part = std::exchange(part_, "");  // it may be used in several parts
  known = claim(next_name(kind));
  part_ = part;
  constants_.push_back({tensor_header(known.name, type, shape), {values.begin(), values.end()}, {}});
  return known;
}

OnnxValue OnnxGraph::numbers(const std::vector<std::int64_t>& shape, std::span<const real> values) {
  return add_own("numbers", kReal, shape, std::as_bytes(values));
}

OnnxValue OnnxGraph::number(double value) {
  const real own = static_cast<real>(value);
  return add_own("number", kReal, {}, std::as_bytes(std::span(&own, 1)));
}

OnnxValue OnnxGraph::integers(const std::vector<std::int64_t>& values) {
  return add_own("integers", kInt64, {std::ssize(values)}, std::as_bytes(std::span(values)));
}

OnnxValue OnnxGraph::integer(std::int64_t value) {
  return add_own("integer", kInt64, {}, std::as_bytes(std::span(&value, 1)));
}

OnnxValue OnnxGraph::op(const std::string& type, List<OnnxValue> inputs, List<OnnxAttribute> attributes) {
  return ops(type, inputs, 1, attributes)[0];
}

std::vector<OnnxValue> OnnxGraph::ops(const std::string& type, List<OnnxValue> inputs, std::size_t results,
                                      List<OnnxAttribute> attributes) {
  const std::string name = next_name(type);
  std::vector<OnnxValue> made{claim(name)};
  for (std::size_t i = 1; i < results; ++i) made.push_back(claim(name + ":" + std::to_string(i)));
  for (const OnnxValue& input : inputs)
    if (input.defined()) check_known(name, input);
  add_node(type, name, inputs, made, attributes);
  return made;
}

OnnxValue OnnxGraph::to_reals(const OnnxValue& integers) {
  return op("Cast", {integers}, {{"to", std::int64_t{kReal}}});
}

void OnnxGraph::add_node(const std::string& type, const std::string& name, List<OnnxValue> inputs,
                         std::span<const OnnxValue> results, List<OnnxAttribute> attributes) {
  constexpr std::uint64_t kInputs = 1, kResults = 2, kName = 3, kType = 4, kAttribute = 5;
  std::string node;
  for (const OnnxValue& input : inputs) put(node, kInputs, input.name);
  for (const OnnxValue& result : results) put(node, kResults, result.name);
  put(node, kName, name);
  put(node, kType, type);
  for (const OnnxAttribute& attribute : attributes) put(node, kAttribute, attribute_message(attribute));
  put(nodes_, kNode, node);
}

void OnnxGraph::note(const std::string& key, const std::string& text) { notes_[key] = text; }

void OnnxGraph::write(const std::filesystem::path& path) const {
  std::string graph = nodes_;
  put(graph, kGraphName, name_);
  for (const Port& port : inputs_) put(graph, kInput, port_message(port.name, port.type, port.sizes));
  for (const Port& port : outputs_) put(graph, kOutput, port_message(port.name, port.type, port.sizes));

  // Of each constant, all that comes before its values.
  std::vector<std::string> begins;
  std::uint64_t size = graph.size();
  for (const Constant& constant : constants_) {
    const std::uint64_t bytes = constant.own.size() + constant.values.size();
    const std::string raw = constant.header + begin_bytes(kRawData, bytes);
    begins.push_back(begin_bytes(kInitializer, raw.size() + bytes) + raw);
    size += begins.back().size() + bytes;
  }

  std::string model, operators;
  put(operators, 2, kOperatorSet);
  put(model, 1, kIrVersion);
  put(model, 2, "seppo");
  put(model, 8, operators);
  for (const auto& [key, text] : notes_) {
    std::string entry;
    put(entry, 1, key);
    put(entry, 2, text);
    put(model, 14, entry);
  }
  model += begin_bytes(kGraph, size);
  check<ArgumentError>(model.size() + size <= kMostBytes, "onnx: the model takes ", model.size() + size,
                       " bytes, and a file of this format at most ", kMostBytes);
  replace_atomically(path, [&](File& file) {
    file.write(model.data(), model.size());
    file.write(graph.data(), graph.size());
    for (std::size_t i = 0; i < constants_.size(); ++i) {
      file.write(begins[i].data(), begins[i].size());
      file.write(constants_[i].own.data(), constants_[i].own.size());
      file.write(constants_[i].values.data(), constants_[i].values.size());
    }
  });
}

std::string OnnxGraph::signature() const {
  std::string lines;
  for (const Port& port : inputs_) lines += port_line("input", port.name, port.type, port.sizes);
  for (const Port& port : outputs_) lines += port_line("output", port.name, port.type, port.sizes);
  return lines;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
