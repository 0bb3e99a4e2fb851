//go:build cgo

package main

// #include "skerry.h"
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"github.com/skerry-ft/skerry/internal/capi"
	"github.com/skerry-ft/skerry/pg/tcp"
)

// mostThreads is how many threads run Go at a time, unless SKERRY_THREADS says otherwise:
// the program around has threads of its own on all cores.
const mostThreads = 4

var library = open()

func open() *capi.Library {
	n := min(mostThreads, runtime.NumCPU())
	if told, err := strconv.Atoi(os.Getenv("SKERRY_THREADS")); err == nil && told > 0 {
		n = told
	}
	runtime.GOMAXPROCS(n)
	if err := tcp.Register(); err != nil {
		fmt.Fprintln(os.Stderr, "skerry:", err) // pg.Open says that there is none
	}
	l := capi.New()
	l.Kill = die
	return l
}

// die ends the process as an operator wants it: at once, the others see a death.
func die(reason string) {
	fmt.Fprintf(os.Stderr, "skerry: killed by an operator: %q\n", reason)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // no process lacks the right
}

//export skerry_abi
func skerry_abi() C.int { return capi.ABI }

//export skerry_poller
func skerry_poller() C.int { return C.int(capi.Poller()) }

//export skerry_store_serve
func skerry_store_serve(host *C.char, hostLen C.int64_t, token *C.char, tokenLen C.int64_t, address *C.char, addressCap C.int64_t, text *C.char, textCap C.int64_t) (h C.int64_t) {
	err := guarded(func() error {
		made, at, err := library.ServeStore(textOf(host, hostLen), textOf(token, tokenLen))
		h = C.int64_t(made)
		put(address, addressCap, at)
		return err
	})
	return failed(h, err, text, textCap)
}

//export skerry_open
func skerry_open(backend *C.char, backendLen C.int64_t, settings *C.char, settingsLen C.int64_t, text *C.char, textCap C.int64_t) (h C.int64_t) {
	err := guarded(func() error {
		made, err := library.Open(textOf(backend, backendLen), textOf(settings, settingsLen))
		h = C.int64_t(made)
		return err
	})
	return failed(h, err, text, textCap)
}

//export skerry_configure
func skerry_configure(group C.int64_t, settings *C.char, settingsLen C.int64_t, timeoutUs C.int64_t, text *C.char, textCap C.int64_t) C.int {
	err := guarded(func() error {
		return library.Configure(int64(group), textOf(settings, settingsLen), microseconds(timeoutUs))
	})
	put(text, textCap, capi.FailureOf(err).Text)
	return C.int(capi.FailureOf(err).Code)
}

//export skerry_abort
func skerry_abort(group C.int64_t, why *C.char, whyLen C.int64_t) {
	_ = guarded(func() error { return library.Abort(int64(group), textOf(why, whyLen)) }) // of no group: there is nothing to end
}

//export skerry_err
func skerry_err(group C.int64_t, rank *C.int64_t, id *C.char, idCap C.int64_t, text *C.char, textCap C.int64_t) C.int {
	return tell(guarded(func() error { return library.Err(int64(group)) }), rank, id, idCap, text, textCap)
}

//export skerry_submit
func skerry_submit(group C.int64_t, op *C.int64_t, n C.int64_t) (work C.int64_t) {
	_ = guarded(func() error { // 0 is the handle of nothing: skerry_error says so
		work = C.int64_t(library.Submit(int64(group), words(op, n)))
		return nil
	})
	return work
}

//export skerry_run
func skerry_run(group C.int64_t, op *C.int64_t, n C.int64_t, sliceUs C.int64_t) C.int64_t {
	work := C.int64_t(-1)      // the handle of nothing
	_ = guarded(func() error { // skerry_error says what -1 is
		work = C.int64_t(library.Run(int64(group), words(op, n), microseconds(sliceUs)))
		return nil
	})
	return work
}

//export skerry_wait
func skerry_wait(work C.int64_t, timeoutUs C.int64_t) C.int {
	state := capi.Failed
	_ = guarded(func() error { // skerry_error says what has failed
		state = library.Wait(int64(work), microseconds(timeoutUs))
		return nil
	})
	return C.int(state)
}

//export skerry_error
func skerry_error(work C.int64_t, rank *C.int64_t, id *C.char, idCap C.int64_t, text *C.char, textCap C.int64_t) C.int {
	return tell(guarded(func() error { return library.Result(int64(work)) }), rank, id, idCap, text, textCap)
}

//export skerry_source
func skerry_source(work C.int64_t) C.int64_t {
	source := -1
	_ = guarded(func() error { // of none: -1
		source = library.Source(int64(work))
		return nil
	})
	return C.int64_t(source)
}

//export skerry_manager_open
func skerry_manager_open(settings *C.char, settingsLen C.int64_t, text *C.char, textCap C.int64_t) (h C.int64_t) {
	err := guarded(func() error {
		made, err := library.OpenManager(textOf(settings, settingsLen))
		h = C.int64_t(made)
		return err
	})
	return failed(h, err, text, textCap)
}

//export skerry_manager_group
func skerry_manager_group(manager C.int64_t) (group C.int64_t) {
	_ = guarded(func() error { // of none: 0
		g, err := library.ManagedGroup(int64(manager))
		group = C.int64_t(g)
		return err
	})
	return group
}

//export skerry_manager_state
func skerry_manager_state(manager C.int64_t, part *C.char, partLen C.int64_t, state *C.char, stateLen C.int64_t, text *C.char, textCap C.int64_t) C.int {
	err := guarded(func() error {
		return library.TellState(int64(manager), textOf(part, partLen), textOf(state, stateLen))
	})
	return tell(err, nil, nil, 0, text, textCap)
}

//export skerry_manager_call
func skerry_manager_call(manager C.int64_t, verb C.int64_t, argument C.int64_t, timeoutUs C.int64_t) (call C.int64_t) {
	_ = guarded(func() error { // 0 is the handle of nothing: skerry_error says so
		call = C.int64_t(library.Call(int64(manager), capi.Verb(verb), int64(argument), microseconds(timeoutUs)))
		return nil
	})
	return call
}

//export skerry_manager_turn
func skerry_manager_turn(manager C.int64_t, timeoutUs C.int64_t) (turn C.int) {
	_ = guarded(func() error { // of none: no turn
		wanted, err := library.Turn(int64(manager), microseconds(timeoutUs))
		if wanted {
			turn = 1
		}
		return err
	})
	return turn
}

//export skerry_manager_stepped
func skerry_manager_stepped(manager C.int64_t, drained C.int) {
	_ = guarded(func() error { return library.Stepped(int64(manager), drained != 0) }) // nobody waits: nothing to tell
}

//export skerry_manager_report
func skerry_manager_report(manager C.int64_t, why *C.char, whyLen C.int64_t) {
	_ = guarded(func() error { return library.Report(int64(manager), textOf(why, whyLen)) }) // of none: nothing to discard
}

//export skerry_manager_drain
func skerry_manager_drain(manager C.int64_t) {
	_ = guarded(func() error { return library.Drain(int64(manager)) }) // of none: it has left
}

//export skerry_manager_move
func skerry_manager_move(manager C.int64_t) {
	_ = guarded(func() error { return library.Move(int64(manager)) }) // of none: nobody waits
}

//export skerry_manager_event
func skerry_manager_event(manager C.int64_t, text *C.char, textCap C.int64_t) (n C.int64_t) {
	_ = guarded(func() error { // of none: no event
		e, err := library.NextEvent(int64(manager), int(textCap))
		put(text, textCap, e)
		n = C.int64_t(len(e))
		return err
	})
	return n
}

//export skerry_manager_wish
func skerry_manager_wish(manager C.int64_t, kind C.int64_t, text *C.char, textCap C.int64_t, timeoutUs C.int64_t) (n C.int64_t) {
	err := guarded(func() error {
		w, err := library.Wish(int64(manager), capi.WishKind(kind), microseconds(timeoutUs))
		put(text, textCap, w)
		n = C.int64_t(len(w))
		return err
	})
	if err != nil {
		return -1
	}
	return n
}

//export skerry_manager_grant
func skerry_manager_grant(manager C.int64_t, id C.int64_t, why *C.char, whyLen C.int64_t) {
	_ = guarded(func() error { return library.Grant(int64(manager), int64(id), textOf(why, whyLen)) }) // of none: nobody waits
}

//export skerry_store_call
func skerry_store_call(store C.int64_t, request *C.char, requestLen C.int64_t, timeoutUs C.int64_t) (call C.int64_t) {
	_ = guarded(func() error { // 0 is the handle of nothing: skerry_error says so
		call = C.int64_t(library.CallStore(int64(store), textOf(request, requestLen), microseconds(timeoutUs)))
		return nil
	})
	return call
}

//export skerry_text
func skerry_text(h C.int64_t, text *C.char, textCap C.int64_t) (n C.int64_t) {
	err := guarded(func() error {
		said, err := library.Text(int64(h))
		put(text, textCap, said)
		n = C.int64_t(len(said))
		return err
	})
	if err != nil {
		return -1
	}
	return n
}

//export skerry_close
func skerry_close(h C.int64_t) {
	_ = guarded(func() error { return library.Close(int64(h)) }) // what it says nobody can mend
}

// guarded calls f; a panic is its error, and ends there.
func guarded(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			buf := make([]byte, 8<<10)
			err = fmt.Errorf("skerry: panic: %v\n%s", r, buf[:runtime.Stack(buf, false)])
		}
	}()
	return f()
}

func microseconds(n C.int64_t) time.Duration { return time.Duration(n) * time.Microsecond }

// textOf copies the caller's text.
func textOf(p *C.char, n C.int64_t) string {
	if p == nil || n <= 0 {
		return ""
	}
	return string(unsafe.Slice((*byte)(unsafe.Pointer(p)), n))
}

// words are the caller's, until the call returns.
func words(p *C.int64_t, n C.int64_t) []int64 {
	if p == nil || n <= 0 {
		return nil
	}
	return unsafe.Slice((*int64)(unsafe.Pointer(p)), n)
}

// put writes text to the caller's buffer, cut to its size, with a zero byte behind.
func put(p *C.char, size C.int64_t, text string) {
	if p == nil || size <= 0 {
		return
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(p)), size)
	b[copy(b[:size-1], text)] = 0
}

// failed is h, or 0 after err, which it writes.
func failed(h C.int64_t, err error, text *C.char, size C.int64_t) C.int64_t {
	if err == nil {
		return h
	}
	put(text, size, err.Error())
	return 0
}

// tell writes what err is.
func tell(err error, rank *C.int64_t, id *C.char, idCap C.int64_t, text *C.char, textCap C.int64_t) C.int {
	f := capi.FailureOf(err)
	if rank != nil {
		*rank = C.int64_t(f.Rank)
	}
	put(id, idCap, f.PeerID)
	put(text, textCap, f.Text)
	return C.int(f.Code)
}
