// Package place reads from a process's environment where it stands in its job, whatever
// launcher started it.
//
// # Usage
//
//	p, err := place.FromEnv()
//	w, err := dist.Init(ctx, dist.InitConfig{Backend: "tcp", Method: p.Method()})
//
// A job in which each process is a replica, and one that is started for each replica:
//
//	manager.Config{Job: p.Job, ReplicaID: fmt.Sprintf("replica-%d", p.Rank)}
//	if p.Rank == 0 && !p.AgentStore { // torchrun's agent serves one, the others' launchers do not
//		s, err := store.NewServer(store.ServerConfig{Listen: p.Master(), Open: true}) // as open as torchrun's
//		go s.Run(ctx)                                                                 // until the last rank has ended
//	}
//	manager.Config{ReplicaID: name, GroupRank: p.Rank, GroupWorldSize: p.WorldSize, GroupStore: p.GroupStore()}
//
// # Launchers
//
// The first that has started this process is believed, in this order: those that the
// caller brings, then those of [Launchers]. One may run inside another (torchrun under
// srun, mpirun in an allocation of Slurm): then the inner one knows the process's place.
//
//	name        it is there if             place                                  master
//	torchrun    TORCHELASTIC_RUN_ID        RANK, WORLD_SIZE, LOCAL_RANK,          MASTER_ADDR, MASTER_PORT
//	                                       LOCAL_WORLD_SIZE, GROUP_RANK,
//	                                       GROUP_WORLD_SIZE
//	env         RANK and WORLD_SIZE        the same, and NODE_RANK; all but       MASTER_ADDR, MASTER_PORT
//	                                       these two may be missing
//	lsf         LSB_JOBID and              JSM_NAMESPACE_RANK, _SIZE,             the second host of
//	            JSM_NAMESPACE_RANK         _LOCAL_RANK                            LSB_DJOB_RANKFILE
//	openmpi     OMPI_COMM_WORLD_RANK       OMPI_COMM_WORLD_RANK, _SIZE,           MASTER_ADDR
//	                                       _LOCAL_RANK, _LOCAL_SIZE
//	pmi         PMI_RANK, and no srun      PMI_RANK, PMI_SIZE, MPI_LOCALRANKID,   MASTER_ADDR
//	            or MPI_LOCALRANKID         MPI_LOCALNRANKS
//	slurm       SLURM_STEP_ID and          SLURM_PROCID, SLURM_STEP_NUM_TASKS,    the first host of
//	            SLURM_PROCID: an srun      SLURM_LOCALID, SLURM_NODEID,           SLURM_STEP_NODELIST
//	                                       SLURM_STEP_NUM_NODES
//	kubernetes  JOB_COMPLETION_INDEX:      JOB_COMPLETION_INDEX, WORLD_SIZE       the pod of index 0, by the
//	            a pod of an indexed Job,   of a JobSet see [Kubernetes]           name of this one
//	            or of a JobSet
//
// MASTER_ADDR and MASTER_PORT always win over what a launcher's own variables say. Without
// MASTER_PORT it is 29500, as torch has it; under Slurm it is 15000, and under LSF 10000,
// plus the last four digits of the job's number, as Lightning has it (in Slurm plus 97 for
// each further step), so that jobs that share hosts seldom collide. Where no variable says
// how many processes of the job are on this host, or on which host this is, LocalSize
// and Nodes are 0.
//
// # A launcher of one's own
//
// A [Launcher] is a name and two functions of an [Env]; its Place is checked like all others.
//
// # Errors
//
// [ErrNotLaunched] if nothing has started this process as one of several. All other
// problems are returned at once, each with its variable, its value and what is wanted.
// The environment is trusted no further than that: numbers, lists and files are bounded.
//
// # Concurrency
//
// The package has no goroutines and no state. FromEnv reads the environment, and of files
// LSF's rank file or /etc/hosts; it asks no server.
package place
