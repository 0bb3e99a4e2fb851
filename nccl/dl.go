package nccl

import (
	"fmt"
	"strings"

	"github.com/ebitengine/purego"
)

// object is a shared library that was opened. It is never closed: functions of
// it may be running in threads that nothing can end.
type object struct {
	path   string
	handle uintptr
}

// openObject opens the first of paths that can be.
func openObject(what string, paths []string) (*object, error) {
	var tried []string
	for _, p := range paths {
		h, err := purego.Dlopen(p, purego.RTLD_NOW|purego.RTLD_GLOBAL)
		if err == nil {
			return &object{p, h}, nil
		}
		tried = append(tried, err.Error())
	}
	return nil, fmt.Errorf("%w: %s, looked for %s: %s",
		ErrUnavailable, what, strings.Join(paths, ", "), strings.Join(tried, "; "))
}

// bind points *fn at the symbol, if there is one.
func (o *object) bind(fn any, symbol string) bool {
	addr, err := purego.Dlsym(o.handle, symbol)
	if err != nil || addr == 0 {
		return false
	}
	purego.RegisterFunc(fn, addr)
	return true
}

// binding is a function and its symbol.
type binding struct {
	fn     any
	symbol string
}

// require binds all, or tells which are not there.
func (o *object) require(all []binding) error {
	var missing []string
	for _, b := range all {
		if !o.bind(b.fn, b.symbol) {
			missing = append(missing, b.symbol)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: %s lacks %s; install a newer one", ErrUnavailable, o.path, strings.Join(missing, ", "))
	}
	return nil
}

// goString copies a C string, at most maxCString bytes.
func cString(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return s
}
