// Timings of one thing, and what is robust about them.
#pragma once
#include <cstddef>
#include <vector>

#include "Figure.h"

namespace spillway {

class Samples {
 public:
  // disturbed: the system took a thread away meanwhile, to give its processor to somebody else. Such samples are passed
  // over as long as there are kEnough others.
  void add(double seconds, bool disturbed = false) { (disturbed ? disturbed_ : seconds_).push_back(seconds); }
  size_t count() const { return used().size(); }   // of those that are not passed over
  double median() const { return quantile(0.5); }  // 0 without samples
  // Half the interquartile range over the median; 0 with fewer than two.
  double spread() const;
  // Adds a figure: the rate of what takes so many seconds, its spread and the number of samples. Returns it, for
  // whatever else is to be said of it.
  Figure& report(MachineFigures& into, const char* what) const;

 private:
  static constexpr size_t kEnough = 3;
  std::vector<double> used() const;
  double quantile(double share) const;  // with linear interpolation between neighbours
  std::vector<double> seconds_, disturbed_;
};

}  // namespace spillway
