#include "Samples.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace spillway {

std::vector<double> Samples::used() const {
  std::vector<double> all = seconds_;
  if (all.size() < kEnough) all.insert(all.end(), disturbed_.begin(), disturbed_.end());
  return all;
}

double Samples::quantile(double share) const {
  std::vector<double> sorted = used();
  if (sorted.empty()) return 0;
  std::sort(sorted.begin(), sorted.end());
  const double at = share * static_cast<double>(sorted.size() - 1);
  const size_t low = static_cast<size_t>(std::floor(at));
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (sorted[high] - sorted[low]) * (at - static_cast<double>(low));
}

double Samples::spread() const {
  const double middle = median();
  return middle > 0 ? (quantile(0.75) - quantile(0.25)) / 2 / middle : 0;
}

Figure& Samples::report(MachineFigures& into, const char* what) const {
  Figure figure;
  figure.what = what;
  figure.perSecond = 1 / median();
  figure.spread = spread();
  figure.samples = count();
  into.figures.push_back(std::move(figure));
  return into.figures.back();
}

}  // namespace spillway
