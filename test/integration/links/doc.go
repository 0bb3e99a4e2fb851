// Package links runs process groups between network namespaces, over a wire
// that the test holds in its hands: two TUN devices, whose packets it carries,
// or loses, holds back, slows down, or spoils. So it is the kernel's TCP that
// meets a bad link, and not a proxy beside it. It takes root, and leaves the
// host's own network alone.
package links
