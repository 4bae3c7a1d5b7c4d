import matplotlib.pyplot as plt
for name, part in df.groupby("continent"):
    plt.scatter(part.area, part.people, s=18, label=name)
plt.loglog()
plt.xlabel("area, km²")
plt.ylabel("people")
plt.title("149 countries: area and population, about 2020")
plt.legend()
plt.show()
