#include <stddef.h>

// fake_enqueue runs run(arg) on a stream's thread, in order; NULL is the
// default stream.
void fake_enqueue(void *stream, void (*run)(void *), void *arg);
