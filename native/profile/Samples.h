// Timings of one thing, and what is robust about them.
#pragma once
#include <cstddef>
#include <vector>

namespace spillway {

class Samples {
 public:
  void add(double seconds) { seconds_.push_back(seconds); }
  size_t count() const { return seconds_.size(); }
  double median() const { return quantile(0.5); }  // 0 without samples
  // Half the interquartile range over the median; 0 with fewer than two samples.
  double spread() const;

 private:
  double quantile(double share) const;  // with linear interpolation between neighbours
  std::vector<double> seconds_;
};

}  // namespace spillway
