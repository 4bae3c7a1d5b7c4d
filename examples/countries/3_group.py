by_continent = df.groupby("continent")[["people", "area"]].sum()
by_continent["density"] = by_continent.people / by_continent.area
by_continent = by_continent.sort_values("density", ascending=False)
by_continent.to_csv("by_continent.csv")
by_continent.density.round(1)
