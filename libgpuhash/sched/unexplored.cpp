// The plugins that the explorer leaves out, in a file of their own: it alone is compiled again when they change.
namespace gpuhash::sim {

extern const char unexplored[];
const char unexplored[] = GPUHASH_UNEXPLORED;

}  // namespace gpuhash::sim
