def test_a(bench):
    r = bench.synth([{"id":f"r{i}","text":"Hello there."*(1+i%2)} for i in range(40)], "--max-seconds", 1, "--save-codes")
    print(r)
    o=bench.out()
    print([x["frames"] for x in o.lines], o.report["totals"])
    r = bench.synth([{"id":f"r{i}","text":"Hello there."*(1+i%2)} for i in range(40)], "--max-seconds", 1, "--save-codes", "--max-batch", 1, out="o2")
    print(bench.out("o2").report["totals"])
    f,g=o.files, bench.out("o2").files
    print([k for k in f if f[k]!=g[k]])
def test_b(bench, endless, poisoned):
    r = bench.synth([{"id":f"r{i}","text":"Hello there."*(1+i%2), "max_frames":30} for i in range(4)], model=endless)
    print(r, bench.out().files.keys())
    r = bench.synth([{"id":f"r{i}","text":"Hello there."+"~"*(i==1)} for i in range(4)], model=poisoned, out="p")
    print(r, bench.out("p").lines)
