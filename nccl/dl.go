package nccl

import (
	"fmt"
	"reflect"
	"slices"
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

// bindAll points every function of *functions, a struct, at the first symbol of its tag
// sym that there is. Those that have none stay nil; it tells which, but for the optional.
func (o *object) bindAll(functions any) error {
	var missing []string
	for field, f := range reflect.ValueOf(functions).Elem().Fields() {
		symbols := strings.Fields(field.Tag.Get("sym"))
		fn := reflect.NewAt(field.Type, f.Addr().UnsafePointer()).Interface() // f itself gives no function: it is not exported
		found := slices.ContainsFunc(symbols, func(s string) bool { return o.bind(fn, s) })
		if !found && field.Tag.Get("optional") == "" {
			missing = append(missing, symbols...)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: %s lacks %s; install a newer one", ErrUnavailable, o.path, strings.Join(missing, ", "))
	}
	return nil
}
