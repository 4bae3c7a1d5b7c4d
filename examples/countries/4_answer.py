top = df.nlargest(5, "density")[["country", "density"]]
dense, empty = by_continent.index[0], by_continent.index[-1]
times = by_continent.density[dense] / by_continent.density[empty]
print(top.round(0).to_string(index=False))
result = f"{dense} is the densest continent, {times:.0f} times {empty}"
