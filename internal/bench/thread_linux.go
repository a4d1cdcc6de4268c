package bench

const rusageThread = 1

// threadUsage is the CPU time of the calling thread so far.
func threadUsage() usage { return resourceUsage(rusageThread) }
