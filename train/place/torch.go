package place

// torchrun sets all variables of env, and its run id.
func torchrun() Launcher {
	return Launcher{
		Name:  "torchrun",
		There: func(e Env) bool { return e.Var("TORCHELASTIC_RUN_ID") != "" },
		Read: func(e Env) (Place, error) {
			r := &reader{env: e}
			p := r.torch()
			p.Job = e.Var("TORCHELASTIC_RUN_ID")
			p.Restart = r.optional(0, 0, MaxWorldSize, "TORCHELASTIC_RESTART_COUNT")
			p.AgentStore = e.Var("TORCHELASTIC_USE_AGENT_STORE") == "True"
			return r.done(p)
		},
	}
}

// plain is what any launcher sets that starts programs of torch: Kubeflow's, or a script.
func plain() Launcher {
	return Launcher{
		Name:  "env",
		There: func(e Env) bool { return e.Var("RANK") != "" && e.Var("WORLD_SIZE") != "" },
		Read: func(e Env) (Place, error) {
			r := &reader{env: e}
			p := r.torch()
			p.Job = e.Var("JOB_ID")
			return r.done(p)
		},
	}
}

// torch reads the variables of torch.distributed's env://.
func (r *reader) torch() (p Place) {
	r.rank(&p, "RANK", "WORLD_SIZE")
	most := max(p.WorldSize, 1)
	p.LocalSize = r.optional(0, 1, most, "LOCAL_WORLD_SIZE")
	p.LocalRank = r.optional(0, 0, most-1, "LOCAL_RANK")
	p.Nodes = r.optional(0, 1, most, "GROUP_WORLD_SIZE")
	p.NodeRank = r.optional(0, 0, most-1, "GROUP_RANK", "NODE_RANK")
	alone := ""
	if p.WorldSize == 1 {
		alone = "127.0.0.1"
	}
	r.master(&p, alone, 0, "")
	return p
}

// openMPI is mpirun of Open MPI, which does not say where rank 0 is.
func openMPI() Launcher {
	return Launcher{
		Name:  "openmpi",
		There: func(e Env) bool { return e.Var("OMPI_COMM_WORLD_RANK") != "" },
		Read: func(e Env) (Place, error) {
			r, p := &reader{env: e}, Place{Job: e.Var("PMIX_NAMESPACE")}
			r.rank(&p, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")
			most := max(p.WorldSize, 1)
			p.LocalSize = r.optional(0, 1, most, "OMPI_COMM_WORLD_LOCAL_SIZE")
			p.LocalRank = r.number(0, most-1, "OMPI_COMM_WORLD_LOCAL_RANK")
			r.mpiMaster(&p)
			return r.done(p)
		},
	}
}

// pmi is mpiexec of MPICH and Intel MPI. An srun sets PMI_RANK too, for the programs that it
// starts, but not MPI_LOCALRANKID; where both are there, mpiexec was started by srun.
func pmi() Launcher {
	return Launcher{
		Name: "pmi",
		There: func(e Env) bool {
			return e.Var("PMI_RANK") != "" && (e.Var("MPI_LOCALRANKID") != "" || e.Var("SLURM_STEP_ID") == "")
		},
		Read: func(e Env) (Place, error) {
			r, p := &reader{env: e}, Place{Job: e.Var("PMI_JOBID")}
			r.rank(&p, "PMI_RANK", "PMI_SIZE")
			most := max(p.WorldSize, 1)
			p.LocalSize = r.optional(0, 1, most, "MPI_LOCALNRANKS")
			p.LocalRank = r.optional(0, 0, most-1, "MPI_LOCALRANKID")
			r.mpiMaster(&p)
			return r.done(p)
		},
	}
}

// mpiMaster is loopback if all processes are on this host.
func (r *reader) mpiMaster(p *Place) {
	addr := ""
	if p.LocalSize == p.WorldSize {
		addr, p.Nodes = "127.0.0.1", 1
	}
	r.master(p, addr, 0, "MASTER_ADDR is not set, want the host of rank 0: MPI does not say it (mpirun -x MASTER_ADDR, mpiexec -genv MASTER_ADDR)")
}
