// The rows of the table of ops, by subject.
#pragma once

#include "support/ops/table.h"

#include <string>
#include <vector>

namespace test {

std::vector<OpRow> elementwise_rows();
std::vector<OpRow> reduction_rows();
std::vector<OpRow> softmax_and_norm_rows();
std::vector<OpRow> shape_rows();
std::vector<OpRow> index_rows();
std::vector<OpRow> loss_rows();
std::vector<OpRow> ctc_rows();
std::vector<OpRow> product_rows();
std::vector<OpRow> group_rows();
std::vector<OpRow> attention_rows();

// The lists one after another.
std::vector<OpRow> joined(const std::vector<std::vector<OpRow>>& lists);

// f(x) with the slope there, where a formula would lose digits or is not differentiable.
inline double with_slope(double, double value, double) { return value; }
inline Complex with_slope(const Complex& x, double value, double slope) { return {value, slope * x.imag()}; }

// Whether two shapes can be broadcast together.
bool broadcast(const Shape& a, const Shape& b);
inline Shape shape_of(const std::vector<int>& sizes) { return Shape(std::span<const int>(sizes)); }
inline bool has_axis(const Shape& shape, int axis) { return -shape.rank() <= axis && axis < shape.rank(); }
inline int from_start(const Shape& shape, int axis) { return axis < 0 ? axis + shape.rank() : axis; }

// As Python writes them.
std::string text(double number);
std::string text(const std::vector<int>& list);

}  // namespace test
