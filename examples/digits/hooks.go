package digits

import (
	"errors"
	"strings"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/ddp"
	"github.com/skerry-ft/skerry/train/ddp/powersgd"
)

// The values of Config.Hook.
const (
	HookNone         = "none" // gradients are averaged as they are
	HookFP16         = "fp16" // they are sent as float16
	HookBF16         = "bf16"
	HookPowerSGD     = "powersgd" // as approximations of low rank
	HookFP16PowerSGD = "fp16-powersgd"
	HookBF16PowerSGD = "bf16-powersgd"
)

// Hooks are the values of Config.Hook.
func Hooks() []string {
	return []string{HookNone, HookFP16, HookBF16, HookPowerSGD, HookFP16PowerSGD, HookBF16PowerSGD}
}

// How PowerSGD approximates gradients of 128x64 and 10x128.
const (
	powerRank  = 4
	powerStart = 20
)

// newHook makes the hook of a name, and the PowerSGD in it, if there is one.
func newHook(name string, params []ddp.Param) (hook ddp.Hook, low *powersgd.Hook, err error) {
	if strings.HasSuffix(name, HookPowerSGD) {
		if low, err = powersgd.New(params, powersgd.Config{Rank: powerRank, Start: powerStart}); err != nil {
			return nil, nil, err
		}
		hook = low
	}
	switch {
	case strings.HasPrefix(name, HookFP16):
		hook, err = ddp.NewCompress(tensor.Float16, hook)
	case strings.HasPrefix(name, HookBF16):
		hook, err = ddp.NewCompress(tensor.BFloat16, hook)
	}
	return hook, low, err
}

// gradients are a model's, in their shapes.
func gradients(model *Model) ([]ddp.Param, error) {
	var params []ddp.Param
	for _, p := range model.Params() {
		grad, err := tensor.Of(p.Grad).Reshape(p.Shape...)
		if err != nil {
			return nil, err
		}
		params = append(params, ddp.Param{Name: p.Name, Grad: grad})
	}
	return params, nil
}

// average makes the reducer, and registers what it and its hook keep from step to step,
// with the manager and for checkpoints.
func (t *Trainer) average() error {
	params, err := gradients(t.model)
	if err != nil {
		return err
	}
	hook, low, err := newHook(t.cfg.Hook, params)
	if err != nil {
		return err
	}
	o := ddp.Options{Hook: hook}
	if t.cfg.Alloc != nil {
		params, o.Alloc, o.Views = onDevice(params), t.cfg.Alloc, true
	}
	if t.reducer, err = ddp.New(t.manager, params, o); err != nil {
		return err
	}
	err = t.register("ddp", t.reducer.State, t.reducer.Load)
	if low == nil {
		return err
	}
	err = errors.Join(err, t.register("powersgd", low.State, low.Load),
		t.manager.RegisterWith(partErrors, low.Errors, nil, manager.StateOptions{Local: true}))
	if t.cfg.Checkpoints != nil { // which know no Local: all go on with their writer's
		err = errors.Join(err, t.cfg.Checkpoints.Register(partErrors, low.Errors, nil))
	}
	return err
}

// partErrors is PowerSGD's error memory, which each replica has of its own.
const partErrors = "powersgd-errors"

// register registers a part of the state with the manager and, if there are any, with the
// checkpoints: one that only the manager knows is fresh when all have died.
func (t *Trainer) register(name string, save func() checkpoint.State, load func(checkpoint.State) error) error {
	err := t.manager.Register(name, save, load)
	if t.cfg.Checkpoints != nil {
		err = errors.Join(err, t.cfg.Checkpoints.Register(name, save, load))
	}
	return err
}
