// Package debug puts what helps to debug on the groups of a world, as torch does by
// TORCH_DISTRIBUTED_DEBUG. All of it are decorators of package pg's backends, which know
// nothing of it.
//
//	d := debug.New(debug.Config{Level: debug.Detail, Log: logger})
//	g := pg.NewGroup(d.Wrap("dp", backend))
//
// A [Debugger] puts on every group what the level says: OFF nothing, INFO a log of groups
// and what they did (to the logger given, or to standard error), DETAIL also [Check], which
// compares what the ranks call before they run it and names who does not come. Whatever the
// level, it adds a flight recorder (package pg/trace) and an observe.Observer where its config
// has them. Subgroups get what their parent has.
//
// dist.Init and manager.Config.FromEnv make a Debugger from the environment, see
// [Config.FromEnv].
package debug
